"""What a newcomer waits for: the import, the first analysis of a process, and the demonstration, in fresh processes.

Processor time (user and system) of fresh processes, medians over repetitions.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import distribution, requires

import numpy as np
from packaging.requirements import Requirement

from benchmarks.cost.first_analysis import FIRST_ROWS, FIRST_TREES, compiled_environment
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

FOREST = """
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
X, y = make_classification(200, random_state=0)
forest = RandomForestClassifier(100, random_state=0).fit(X, y)
"""
WORKS = {
    "Python itself": "",
    "import ens_plugin": "import ens_plugin",
    "a forest of 100 trees on 200 rows": FOREST,
    "the same, and its first analysis": f"{FOREST}\nimport ens_plugin\nens_plugin.analyze(forest, X, y)",
}
FIRST = """
import sklearn.datasets, sklearn.ensemble
from benchmarks.cost.first_analysis import measure
print(*measure())
"""
TRIED = (
    "what only other analyses need is imported where it is used; the tables of the first curve are computed once for "
    "each size. Two fifths are the import of these modules, a third is what a second analysis takes, a tenth is the "
    "search of threadpoolctl for libraries; the rest is the first curve."
)
DEMO = "from ens_plugin.cli.main import main; main(['demo'])"


def processor_seconds(code: str) -> float:
    """Return the processor time of a new Python process that runs `code`; other work does not stretch it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**compiled_environment(), "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with tempfile.TemporaryDirectory() as directory:
        # The demonstration's store is made anew in an empty directory.
        environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        subprocess.run([sys.executable, "-c", code], cwd=directory, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_claims(repetitions: int) -> list[Claim]:
    """Time the first analysis in processes of their own."""
    command = [sys.executable, "-W", "ignore", "-c", FIRST]
    found = []
    for _ in range(repetitions):
        done = subprocess.run(command, env=compiled_environment(), check=True, capture_output=True, text=True)
        found.append([float(value) for value in done.stdout.split()])
    first, second = np.median(found, axis=0)
    what = f"{FIRST_ROWS} rows, {FIRST_TREES} trees, beyond the imports of scikit-learn (ms)"
    return [
        Claim(f"first analysis in a process, {what}", float(first), high=50, digits=0, tried=TRIED),
        Claim(f"second analysis in a process, {what}", float(second), digits=0),
    ]


def installed() -> tuple[int, float]:
    """Return how many distributions the base needs, itself among them, and their size in megabytes."""
    names, waiting = set[str](), ["ens-plugin"]
    while waiting:
        name = distribution(waiting.pop()).metadata["Name"]
        if name not in names:
            names.add(name)
            needed = map(Requirement, requires(name) or [])
            waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    sizes = [file.size or 0 for name in names for file in distribution(name).files or []]
    return len(names), sum(sizes) / 1e6


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 5, arguments, smoke=1)
    works = WORKS if options.smoke else {**WORKS, "ens-plugin demo": DEMO}
    for code in works.values():
        # The first process may compile the package.
        processor_seconds(code)
    taken = {name: [processor_seconds(code) for _ in range(options.repetitions)] for name, code in works.items()}
    seconds = {name: float(np.median(times)) for name, times in taken.items()}
    python, imported, forest, analysed = (seconds[name] for name in WORKS)
    number, megabytes = installed()
    claims = [
        Claim("import ens_plugin, beyond Python itself (s)", imported - python, high=0.05, digits=3),
        Claim("first analysis of a process, 200 rows, 100 trees, with its imports (s)", analysed - forest),
        *first_claims(options.repetitions),
        Claim("distributions of the base installation", number, digits=0),
        Claim("their size, installed (MB)", megabytes, digits=0),
    ]
    if not options.smoke:
        claims.append(
            Claim("ens-plugin demo: three forests, their reports and MLflow runs (s)", seconds["ens-plugin demo"])
        )
    return conclude(__name__, options, claims)
