"""Run benchmarks, one after the other: all of them, or those of the rooms and names that are given."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
# Every file that has a command line is a script.
SCRIPTS = sorted(
    f"{path.parent.name}.{path.stem}"
    for path in HERE.glob("*/*.py")
    if path.parent.name != "shared" and "\ndef main(" in path.read_text(encoding="utf-8")
)


def main(arguments: list[str] | None = None) -> None:
    """Run the scripts, each of which writes its own CSV, and the page of results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a room such as cost, or a script such as cost.speed")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; nothing is written")
    options = parser.parse_args(arguments)
    chosen = [one for one in SCRIPTS if not options.names or {one, one.partition(".")[0]} & {*options.names}]
    for script in chosen:
        print(import_module(f"benchmarks.{script}").main(["--smoke"] if options.smoke else []))


if __name__ == "__main__":
    main()
