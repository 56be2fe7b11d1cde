"""The command line of the scripts that repeat a paper's experiments."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.forests import DEFAULT_CACHE


@dataclass(frozen=True)
class Repetitions:
    """How often the experiment is repeated: in a smoke run, by default, and in the paper."""

    smoke: int
    default: int
    full: int


class PaperOptions(argparse.Namespace):
    """Options of one run of a paper's script.

    Attributes
    ----------
    smoke : bool
        Tiny sizes, nothing written to RESULTS.md.
    full : bool
        The paper's own sizes and repetitions.
    repetitions, seed, n_jobs : int
    cache : Path
        Where grown forests are kept.
    """

    smoke: bool
    full: bool
    repetitions: int
    seed: int
    n_jobs: int
    cache: Path


def read_paper_options(
    module: str, description: str | None, repetitions: Repetitions, arguments: list[str] | None
) -> PaperOptions:
    """Read the options of one script; `arguments` None means the process's own."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="tiny sizes; RESULTS.md stays as it is")
    size.add_argument("--full", action="store_true", help=f"the paper's own sizes, {repetitions.full} repetitions")
    size.add_argument("--repetitions", type=int, default=repetitions.default, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--n-jobs", type=int, default=2, help="processes that grow forests (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="kept forests (default: %(default)s)")
    options = parser.parse_args(arguments, namespace=PaperOptions())
    if options.smoke or options.full:
        options.repetitions = repetitions.smoke if options.smoke else repetitions.full
    return options
