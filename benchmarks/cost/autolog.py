"""What MLflow costs: autologging beside a fit, logging a report, the registry's gate, and the import itself.

A real `mlflow server` over HTTP on this machine: SQLite, artifacts on disk. In turns, medians over repetitions; what
is loaded at the first call is loaded before. The gate reads the logged report, writes its verdict and moves an alias.
Fits include analysis, figures and sending, to the last request. MLflow 3.17.2.
"""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import mlflow
import mlflow.sklearn
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.cost.speed import N_FEATURES, N_ROWS, N_TREES, alternate, ratio
from benchmarks.cost.tracking_server import serving
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]
Result = TypeVar("Result")

POLICY = {"report": {"error": {"max": 0.5}, "agreement": {"min": 0.5}}}
IMPORTS = {"ens_plugin": "import ens_plugin", "NumPy and SciPy": "import numpy, scipy.special"}


def sample(n_rows: int, seed: int) -> tuple[Array, Array]:
    """The rows of `benchmarks.cost.speed`."""
    features, y = make_classification(n_rows, N_FEATURES, n_informative=10, flip_y=0.05, random_state=seed)
    return features, y


def forest(n_trees: int, seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, random_state=seed, n_jobs=1)


def autolog_claims(n_rows: int, n_trees: int, options: Options) -> list[Claim]:
    """Time fits with and without autologging in turns; every fit with it leaves a report in a run of its own."""
    features, y = sample(n_rows, options.seed)

    def fit() -> None:
        forest(n_trees, options.seed).fit(features, y)

    # The fit of a smoke run is so short that a share of its time is too little for a report on a busy machine.
    max_overhead = math.inf if options.smoke else 0.1

    def logged_fit() -> None:
        ens_plugin.autolog(silent=True, max_overhead=max_overhead)
        try:
            fit()
        finally:
            ens_plugin.autolog(disable=True)

    before = len(_reported_runs())
    times = alternate({"plain": fit, "logged": logged_fit}, options.repetitions)
    if len(_reported_runs()) - before != options.repetitions + 1:
        raise RuntimeError("a fit with autologging left no report, so its time is not that of autologging")
    what = f"{n_rows} rows, {n_trees} trees"
    extra = ratio(f"autologging to a server / fit (%), {what}, one thread", times["logged"], times["plain"])
    overhead = 100.0 * (extra.value - 1.0)
    return [
        Claim(extra.measure, overhead, 100.0 * (extra.spread or 0.0), high=10, digits=1),
        Claim(f"the fit alone (s), {what}", float(np.median(times["plain"])), digits=1),
    ]


def _reported_runs() -> list[Any]:
    return list(mlflow.search_runs(filter_string="metrics.ens.n_members >= 0", output_format="list"))


def surface_claims(n_rows: int, n_trees: int, options: Options) -> list[Claim]:
    """Time the logging of a report to a server, and the gate that reads it from there."""
    features, y = sample(n_rows, options.seed)
    fitted = forest(n_trees, options.seed).fit(features, y)
    report = ens_plugin.analyze(fitted, features, y)
    with mlflow.start_run():
        info = mlflow.sklearn.log_model(fitted, name="forest", serialization_format="cloudpickle", pip_requirements=[])
        ens_plugin.log_report(report, model_id=info.model_id)
    version = mlflow.register_model(info.model_uri, "benchmark")
    times = alternate(
        {
            "logging a report": lambda: ens_plugin.log_report(report),
            "the gate on a logged report": lambda: _passing_gate(f"models:/benchmark/{version.version}"),
        },
        options.repetitions,
    )
    limits = {"logging a report": 1.5, "the gate on a logged report": 5.0}
    return [_in_seconds(f"{name} over HTTP (s)", times[name], limit) for name, limit in limits.items()]


def _passing_gate(uri: str) -> None:
    decision = ens_plugin.gate(uri, POLICY, promote="champion")
    if not decision.passed:
        raise RuntimeError(decision.summary())


def _in_seconds(measure: str, times: Array, limit: float) -> Claim:
    spread = float(times.std(ddof=1)) / math.sqrt(times.size)
    return Claim(measure, float(np.median(times)), spread, high=limit)


def import_claims(options: Options) -> list[Claim]:
    """Time imports, each in a new process that does nothing else."""
    works: dict[str, Callable[[], object]] = {name: _importer(code) for name, code in IMPORTS.items()}
    times = alternate(works, options.repetitions)
    ours, theirs = times.values()
    return [ratio("import ens_plugin / import numpy, scipy.special", ours, theirs, 1.5)]


def _importer(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def with_server(work: Callable[[], Result]) -> Result:
    """Do `work` with MLflow pointing at a new server."""
    with TemporaryDirectory() as folder, serving(Path(folder)) as uri, _tracking_to(uri):
        return work()


@contextmanager
def _tracking_to(uri: str) -> Iterator[None]:
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("benchmark")
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 7, arguments)
    n_rows, n_trees = (1_000, 40) if options.smoke else (N_ROWS, N_TREES)
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    claims = [
        *with_server(lambda: [*autolog_claims(n_rows, n_trees, options), *surface_claims(n_rows, n_trees, options)]),
        *import_claims(options),
    ]
    return conclude(__name__, options, claims)
