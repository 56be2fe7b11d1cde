"""Run benchmarks, one after the other: all of them, or those of the rooms and names that are given.

As in ``python -m benchmarks hard_data cost.speed --repetitions 5``: the options go to each script.
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import takewhile
from pathlib import Path

HERE = Path(__file__).parent
# Every file that has a command line is a script.
SCRIPTS = sorted(
    f"{path.parent.name}.{path.stem}"
    for path in HERE.glob("*/*.py")
    if path.parent.name != "shared" and "\ndef main(" in path.read_text(encoding="utf-8")
)


def main(arguments: list[str]) -> None:
    """Run the scripts, each of which writes its own CSV, and the page of results."""
    names = list(takewhile(lambda word: not word.startswith("-"), arguments))
    chosen = [one for one in SCRIPTS if not names or {one, one.partition(".")[0]} & {*names}]
    if not chosen:
        raise SystemExit(f"No script and no room has such a name. The scripts are {', '.join(SCRIPTS)}.")
    for script in chosen:
        print(import_module(f"benchmarks.{script}").main(arguments[len(names) :]))


if __name__ == "__main__":
    main(sys.argv[1:])
