"""Run every benchmark of hard data, one after the other."""

from __future__ import annotations

import argparse
from importlib import import_module

SCRIPTS = (
    "labels",
    "rare_labels",
    "many_labels",
    "scores",
    "sizes",
    "curves",
    "losses",
    "cells",
    "seeds",
    "repeats",
    "label_shares",
    "metrics",
    "training_variance",
)


def main(arguments: list[str] | None = None) -> None:
    """Run the scripts, each of which writes its own section."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hard_data", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; RESULTS.md stays as it is")
    options = parser.parse_args(arguments)
    for script in SCRIPTS:
        print(import_module(f"benchmarks.hard_data.{script}").main(["--smoke"] if options.smoke else []))


if __name__ == "__main__":
    main()
