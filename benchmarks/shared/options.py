"""The command line that the scripts share."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.shared.forests import DEFAULT_CACHE


class Options(argparse.Namespace):
    """Options of one run.

    Attributes
    ----------
    smoke : bool
        Tiny sizes, and nothing is written.
    repetitions, seed, n_jobs : int
    cache : Path
        Where grown forests are kept, reduced to their members' votes.
    """

    smoke: bool
    repetitions: int
    seed: int
    n_jobs: int
    cache: Path


def read_options(
    module: str, description: str | None, repetitions: int, arguments: list[str] | None, *, smoke: int = 2
) -> Options:
    """Read the options of one script; `arguments` None means the process's own.

    A smoke run has at most `smoke` repetitions.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {module.removeprefix('benchmarks.')}", description=description
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; nothing is written")
    parser.add_argument("--repetitions", type=int, default=repetitions, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--n-jobs", type=int, default=2, help="processes that grow forests (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="kept forests (default: %(default)s)")
    options = parser.parse_args(arguments, namespace=Options())
    if options.smoke:
        options.repetitions = min(options.repetitions, smoke)
    return options
