"""Metrics of scikit-learn by name: bias and coverage of their curves, and how far the recommended sizes are off.

Forests with leaves of 3 rows or more on 600 rows, analysed from their first 50 and 100 trees; truth from a pool of
600 trees on the same training rows, on 12000 fresh rows, continued to infinity by a line in 1/B. Labels of fresh rows
are not drawn: each row counts with either label, by the known probability of it. Metrics of labels are those of the
expected confusion matrix, on 120000 fresh rows. Values are drawn. A bias is a share of the way from one member to
infinity; doublings are those between the recommended and the true size, by the default tolerances. Where the metric
changes by little more than the tolerance, or not in one direction, its true size is not well defined: the gap is the
median distance of the true metric at the recommended size from that at infinity, in tolerances. For metrics of
labels, the error of the size is also given for an analysis that knows each row's limit and variance exactly, of other
samples of 600 rows and their own labels: what is left is the noise of the rows. For the rankings, roc_auc and
average_precision, it is given for an analysis that has the outputs of the pool of 600 trees on such samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import make_scorer, mean_pinball_loss

import ens_plugin
from benchmarks.metrics.fresh_truth import FRESH_ROWS, OF_MATRIX, OF_RANKS, OF_VALUES, FreshTruth, outputs_of
from benchmarks.metrics.problems import PROBLEMS
from benchmarks.metrics.truth import GRID, gap_at
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]

ROWS = 600
FIRST = (50, 100)
POOL = 600
SIZES = (100, 500)
LEAF = 3
OF_LABELS = (*OF_RANKS, "neg_log_loss", "neg_brier_score", *OF_MATRIX)
# Share of the way from one member to infinity that a bias may have.
ALLOWED_BIAS = 0.02
TRIED = (
    "errors of each label by their own row models, and by all rows, weighted by their chances of the label, with "
    "stronger priors of these; the size by the mean curve, and the mean and median of those of its draws. Where a "
    "curve is flat or turns, its true size is not well defined: see the gaps."
)
TRIED_INTERVAL = (
    "for metrics of two labels, deviations of draws of the rows times 1.4, chosen on half of a simulation, and drawn "
    "curves of both labels in place of one curve; for log and squared losses, an unbiased slope of the log loss, long "
    "tails of the rows' losses, the luck of the members, and rows that are to be expected with a probability of 0."
)
TRIED_BIAS = (
    "nothing yet. Twice a standard error that is estimated from few repetitions is exceeded without a bias too: see "
    "the share of an unbiased estimate. The metrics of a problem share its rows."
)
N_UNBIASED = 4000


def given_for(metric: str) -> Any:
    """Return what is passed for a metric: its name, or a scorer of the pinball loss, which has no name there."""
    if metric != "neg_mean_pinball_loss":
        return metric
    return make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9)


class Outcome(NamedTuple):
    """One report against the truth; NaN where it was refused.

    Attributes
    ----------
    errors, held : tuple of float
        Estimate less truth, and whether the interval holds the truth, at the sizes of SIZES and at infinity; NaN at
        sizes below the first of the curve, as of a log loss that is infinite there.
    way : float
        Distance between one member and infinity.
    log_size : float
        Binary logarithm of the recommended over the true size; NaN where one of them is not known.
    size_held : float
        Whether the interval of the size holds the true size, rounded up; NaN where one of them is not known.
    gap : float
        Distance of the metric at the recommended size from that at infinity, in tolerances; NaN where not known.
    outside : bool
        Whether a value lies outside of the range of the metric.
    of_rows : tuple of float
        Of a metric of labels or ranks: binary logarithms of the size by as many fresh rows, of which everything is
        known, over that by all fresh rows.
    """

    errors: tuple[float, ...]
    held: tuple[float, ...]
    way: float
    log_size: float
    size_held: float
    gap: float
    outside: bool
    of_rows: tuple[float, ...] = ()

    @property
    def refused(self) -> bool:
        """Return whether there is no estimate."""
        return math.isnan(self.way)


def metrics_of(name: str) -> tuple[str, ...]:
    """Return the metrics of a problem."""
    return OF_VALUES if PROBLEMS[name].chance is None else OF_LABELS


def outcomes(name: str, seed: list[int], *, pool: int, n_fresh: int) -> dict[tuple[str, int], Outcome]:
    """Train a pool of trees on rows drawn anew, and compare reports on the first ones with the pool on fresh rows."""
    rng = np.random.default_rng(seed)
    problem = PROBLEMS[name]
    features, target = problem.sample(rng, ROWS)
    is_value = problem.chance is None
    kind = RandomForestRegressor if is_value else RandomForestClassifier
    forest = kind(pool, min_samples_leaf=LEAF, max_features=0.5, random_state=int(rng.integers(2**31)))
    forest.fit(features, target)
    fresh = FreshTruth.drawn(problem, forest, rng, pool, n_fresh)
    own = outputs_of(forest, features, is_value, FIRST[-1])
    in_bag = np.zeros((FIRST[-1], ROWS), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_[: FIRST[-1]]):
        in_bag[member, rows] = True
    ensembles = {
        count: ens_plugin.CustomEnsemble(
            own[:count], in_bag[:count], aggregation="mean" if is_value else "mean_proba",
            classes=None if is_value else forest.classes_,
        )
        for count in FIRST
    }  # fmt: skip
    found = {}
    for metric in metrics_of(name):
        given = given_for(metric)
        resolved = resolve_metric(given, find_adapter(ensembles[FIRST[0]]))
        assert resolved is not None
        truth = fresh.curve(resolved)
        right = fresh.size_of(resolved, truth)
        of_rows = tuple(math.log2(size / right) for size in fresh.sizes_by_rows(resolved, ROWS))
        for count, ensemble in ensembles.items():
            found[metric, count] = _outcome(ensemble, target, given, resolved, truth, fresh)._replace(of_rows=of_rows)
    return found


def _outcome(
    ensemble: Any, target: Array, given: Any, metric: ResolvedMetric, truth: Array, fresh: FreshTruth
) -> Outcome:
    nothing = (math.nan,) * (len(SIZES) + 1)
    try:
        report = ens_plugin.analyze(ensemble, None, target, metric=given)
    except EnsPluginError:
        return Outcome(nothing, nothing, math.nan, math.nan, math.nan, math.nan, False)
    curve, wanted = report.error_curve, (*SIZES, math.inf)
    right = [float(truth[GRID.index(size)]) for size in SIZES] + [float(truth[-1])]
    ends = [curve.interval_at(size) if curve.reaches(size) else (math.nan, math.nan) for size in wanted]
    size, true = report.recommended_size or math.nan, fresh.size_of(metric, truth)
    values = np.concatenate([curve.error, curve.lower, curve.upper, np.array(ends).reshape(-1)])
    reached = [1.0 if curve.reaches(size) else math.nan for size in wanted]
    return Outcome(
        errors=tuple(
            curve.at(size) - value if curve.reaches(size) else math.nan
            for size, value in zip(wanted, right, strict=True)
        ),
        held=tuple(
            known * (low <= value <= high) for known, (low, high), value in zip(reached, ends, right, strict=True)
        ),
        way=abs(float(truth[0] - truth[-1])),
        log_size=math.log2(size / true),
        size_held=_holds(report.recommendation.interval, true),
        gap=gap_at(truth, size) / fresh.distance_of(metric, truth),
        outside=bool(np.nanmin(values) < metric.lowest or np.nanmax(values) > metric.highest),
    )


def _holds(interval: tuple[int, int | None], size: float) -> float:
    """Return whether the interval holds a size, rounded up; NaN where the size is not known."""
    if math.isnan(size):
        return math.nan
    low, high = interval
    return float(low <= math.ceil(size) and (high is None or math.ceil(size) <= high))


def run(options: Options) -> dict[tuple[str, str, int], list[Outcome]]:
    """Repeat every problem."""
    cells: dict[tuple[str, str, int], list[Outcome]] = {}
    pool, n_fresh = (120, 300) if options.smoke else (POOL, FRESH_ROWS)
    for place, name in enumerate(list(PROBLEMS)[-2:-1] if options.smoke else PROBLEMS):
        for repetition in range(options.repetitions):
            found = outcomes(name, [options.seed, place, repetition], pool=pool, n_fresh=n_fresh)
            for (metric, count), outcome in found.items():
                cells.setdefault((name, metric, count), []).append(outcome)
    return cells


def summary_of(found: list[Outcome]) -> list[str]:
    """Return refusals, bias over its allowance by size, coverage by size and the root mean square of the sizes."""
    kept = [each for each in found if not each.refused]
    if not kept:
        return [f"{len(found)}", *["-"] * 9]
    way = float(np.mean([each.way for each in kept]))
    biases = [_bias_text(_known([each.errors[place] for each in kept]), way) for place in range(len(SIZES) + 1)]
    of_sizes = [_known([each.held[place] for each in kept]) for place in range(len(SIZES) + 1)]
    held = [f"{100 * known.mean():.0f}" if known.size else "-" for known in of_sizes]
    off, gap = known_root_mean_square([each.log_size for each in kept]), _median_gap(kept)
    size_held = [each.size_held for each in kept if math.isfinite(each.size_held)]
    return [
        f"{len(found) - len(kept)}",
        *biases,
        *held,
        "-" if math.isnan(off) else f"{off:.2f}",
        f"{100 * np.mean(size_held):.0f}" if size_held else "-",
        "-" if math.isnan(gap) else f"{gap:.2f}",
    ]


def _known(values: list[float]) -> Array:
    """Return the values of reports whose curves reach a size."""
    return np.array([value for value in values if not math.isnan(value)])


def _bias_text(errors: Array, way: float) -> str:
    if not errors.size:
        return "-"
    error = errors.std(ddof=1) / math.sqrt(errors.size) if errors.size > 1 else math.nan
    return f"{100 * errors.mean() / way:.1f} ± {100 * error / way:.1f}"


def _median_gap(found: list[Outcome]) -> float:
    gaps = [each.gap for each in found if math.isfinite(each.gap)]
    return float(np.median(gaps)) if gaps else math.nan


def known_root_mean_square(values: list[float]) -> float:
    """Return the root mean square of the values that are numbers; NaN without any."""
    return root_mean_square([value for value in values if math.isfinite(value)])


def has_bias(errors: Array, way: float) -> Array:
    """Return whether a bias is above both two standard errors and the allowed share of the way.

    Parameters
    ----------
    errors : ndarray, shape (..., n_repetitions)
    way : float

    Returns
    -------
    ndarray of bool, shape (...,)
    """
    n_repetitions = errors.shape[-1]
    if n_repetitions < 2:
        return np.zeros(errors.shape[:-1], dtype=bool)
    error = errors.std(axis=-1, ddof=1) / math.sqrt(n_repetitions)
    return np.asarray(np.abs(errors.mean(axis=-1)) > np.maximum(2.0 * error, ALLOWED_BIAS * way))


def _bias_claims(cells: list[list[Outcome]], place: int, where: str) -> list[Claim]:
    """Return the share of cells without a bias, and that of an estimate without any bias and with the same spread."""
    rng = np.random.default_rng(0)
    biased, unbiased = [], []
    for found in cells:
        errors, way = _known([each.errors[place] for each in found]), float(np.mean([each.way for each in found]))
        if not errors.size:
            continue
        biased.append(has_bias(errors, way))
        spread = errors.std(ddof=1) if errors.size > 1 else 0.0
        unbiased.append(np.mean(has_bias(spread * rng.standard_normal((N_UNBIASED, errors.size)), way)))
    return [
        Claim(
            f"cells without bias at {where} (%)", 100.0 * (1.0 - float(np.mean(biased))), None, 95, digits=1,
            tried=TRIED_BIAS,
        ),
        Claim(
            f"cells without bias of an unbiased estimate with normal errors, at {where} (%)",
            100.0 * (1.0 - float(np.mean(unbiased))), None, digits=1,
        ),
    ]  # fmt: skip


def claims_of(cells: dict[tuple[str, str, int], list[Outcome]]) -> list[Claim]:
    """List the targets, each over all cells."""
    kept = {cell: [each for each in found if not each.refused] for cell, found in cells.items()}
    kept = {cell: found for cell, found in kept.items() if found}
    places = [(place, f"{size} members") for place, size in enumerate(SIZES)] + [(len(SIZES), "infinity")]
    claims = []
    for place, where in places:
        claims.extend(_bias_claims(list(kept.values()), place, where))
        held = _known([each.held[place] for found in kept.values() for each in found])
        claims.append(
            Claim(f"interval holds the metric at {where} (%)", 100 * float(held.mean()), None, 90, 99, digits=1)
        )
    off = known_root_mean_square([each.log_size for found in kept.values() for each in found])
    claims.append(
        Claim("error of the size, in doublings (root mean square)", off, None, high=0.8, digits=2, tried=TRIED)
    )
    for metric in (*OF_LABELS, *OF_VALUES):
        claims.extend(
            _size_claims(metric, [each for cell, found in kept.items() if cell[1] == metric for each in found])
        )
    outside = sum(each.outside for found in kept.values() for each in found)
    claims.append(Claim("reports with a value that the metric cannot have", float(outside), None, high=0, digits=0))
    return claims


def _size_claims(metric: str, found: list[Outcome]) -> list[Claim]:
    """Return the error of the sizes by one metric, and how close the metric is at them."""
    off = known_root_mean_square([each.log_size for each in found])
    if math.isnan(off):
        return []
    gaps = np.array([each.gap for each in found if math.isfinite(each.gap)])
    of_rows = known_root_mean_square([value for each in found for value in each.of_rows])
    held = [each.size_held for each in found if math.isfinite(each.size_held)]
    known = [
        Claim(
            f"{metric}: error of the size from {ROWS} rows whose law is known, in doublings (root mean square)",
            of_rows,
            None,
        )
    ]
    stated = 100.0 * float(np.mean([math.isfinite(each.log_size) for each in found]))
    return [
        Claim(f"{metric}: a size is stated (%)", stated, None, digits=0),
        Claim(f"{metric}: error of the size, in doublings (root mean square)", off, None, high=0.8, tried=TRIED),
        Claim(
            f"{metric}: interval of the size holds the true one (%)",
            100 * float(np.mean(held)),
            None,
            90,
            digits=0,
            tried=TRIED_INTERVAL,
        ),
        Claim(
            f"{metric}: size with a metric within twice the tolerance of infinity (%)",
            100 * float(np.mean(gaps <= 2.0)),
            None,
            digits=0,
        ),
        *([] if math.isnan(of_rows) else known),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments, smoke=2)
    cells = run(options)
    wheres = [*map(str, SIZES), "infinity"]
    header = [
        "problem", "metric", "trees", "refused", *(f"bias at {where} (% of the way)" for where in wheres),
        *(f"held at {where} (%)" for where in wheres), "doublings", "size held (%)", "gap (tolerances)",
    ]  # fmt: skip
    rows = [[name, metric, str(count), *summary_of(found)] for (name, metric, count), found in cells.items()]
    return conclude(__name__, options, claims_of(cells), [table(header, rows)])
