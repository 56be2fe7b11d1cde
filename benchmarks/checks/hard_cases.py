"""Results on hard data for the trial of thresholds: one small table of each kind that the benchmarks draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor

import ens_plugin
from benchmarks.checks import alike_rows, copies, ordinary_tables, row_order, shuffled_subjects, training_rows
from benchmarks.hard_data import labels, losses, many_labels, rare_labels, repeats
from benchmarks.shared.problems import friedman1, noisy_logistic
from ens_plugin.papers.dynamic_pruning_2009 import prune

Array = NDArray[Any]
Table = tuple[Array, Array]
Cases = Iterator[tuple[str, Callable[[], Any]]]

N_TREES = 40
N_ROWS = 400
LABEL_METRICS = ("roc_auc", "average_precision", "f1", "neg_log_loss", "neg_brier_score", "matthews_corrcoef")
VALUE_METRICS = ("r2", "neg_median_absolute_error", "neg_mean_absolute_error", "neg_mean_absolute_percentage_error")


def hard_cases() -> Cases:
    """Yield the name of each result, and what computes it on a model that is already trained."""
    for kinds in (_tables(), _weighted(), _grouped(), _metrics(), _held_out(), _stored(), _boosters(), _others()):
        yield from kinds


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng([*name.encode()])


def _tables() -> Cases:
    """Plain analyses of tables that are to be doubted or refused, and of some that are not."""
    draws: dict[str, Callable[[np.random.Generator], Table]] = {
        **row_order.INDEPENDENT,
        **row_order.TOGETHER,
        **row_order.SHUFFLED,
        **{kind: partial(repeats.repeated_data, kind) for kind in (*repeats.COPIES, *repeats.CHANCE)},
        "near copies": lambda rng: alike_rows.subjects(5, 0.02, 5, 0),
        "subjects in random order": lambda rng: alike_rows.subjects(5, 0.3, 10, 0),
        "equal rows, values": lambda rng: shuffled_subjects.equal_rows(0, 0),
        "equal rows, labels": lambda rng: shuffled_subjects.equal_rows(2, 0),
        "blank records": lambda rng: copies.with_blank_records(N_ROWS, 0.3, 2, rng),
        "a label drawn again": copies.drawn_again,
        "rare label": lambda rng: rare_labels.shifted(N_ROWS, 0.03, rng),
        "very rare label": lambda rng: rare_labels.inside(N_ROWS, 0.012, rng),
        "rare label of two kinds": lambda rng: rare_labels.of_two_kinds(N_ROWS, 0.1, rng),
        "20 labels": lambda rng: many_labels.PROBLEMS[0].draw(N_ROWS, 0),
        "35 labels": lambda rng: many_labels.PROBLEMS[-1].draw(N_ROWS, 0),
        "20 rows": lambda rng: noisy_logistic(20, rng),
        "60 rows": lambda rng: noisy_logistic(60, rng),
        "30 rows, values": lambda rng: friedman1(30, rng),
        "2000 rows": lambda rng: noisy_logistic(2000, rng),
        "one column": lambda rng: ordinary_tables.ordinary_table("two real among rare ones", N_ROWS, 3, 0),
        "digits": lambda rng: load_digits(return_X_y=True),
    }
    for name, draw in draws.items():
        X, y = draw(_rng(name))
        model = shuffled_subjects.forest(y, N_TREES, 0).fit(X, y)
        yield name, partial(ens_plugin.analyze, model, X, y)
    X, y = noisy_logistic(N_ROWS, _rng("members"))
    for name, number, depth in (("8 members", 8, None), ("300 members", 300, None), ("stumps", N_TREES, 1)):
        forest = RandomForestClassifier(number, max_depth=depth, random_state=0).fit(X, y)
        yield name, partial(ens_plugin.analyze, forest, X, y)


def _weighted() -> Cases:
    """Targets with heavy tails, and weights at the fit, here, or at both."""
    for name, cell in losses.CELLS.items():
        X, y, _, _, weight = losses.draw(cell, _rng(name), N_ROWS)
        model = RandomForestRegressor(N_TREES, random_state=0).fit(X, y)
        yield f"target: {name}", partial(ens_plugin.analyze, model, X, y, sample_weight=weight)
    X, y = labels.draw_rows(N_ROWS, 0.1, _rng("drawn by weight"))
    weight = _rng("weights").lognormal(size=y.size)
    balanced = RandomForestClassifier(N_TREES, class_weight="balanced", random_state=0).fit(X, y)
    weighted = RandomForestClassifier(N_TREES, random_state=0).fit(X, y, sample_weight=weight)
    yield "balanced", partial(ens_plugin.analyze, balanced, X, y)
    yield "weights at fit", partial(ens_plugin.analyze, weighted, X, y)
    yield "weights at fit and here", partial(ens_plugin.analyze, weighted, X, y, sample_weight=weight)


def _grouped() -> Cases:
    for name, (n_groups, draw, grow) in repeats.CELLS.items():
        if "LightGBM" in name:
            continue
        rows = draw(n_groups, _rng(name))
        model = grow(0, rows)
        yield f"{name}, with groups", partial(ens_plugin.analyze, model, rows.X, rows.y, groups=rows.groups)
        yield f"{name}, without", partial(ens_plugin.analyze, model, rows.X, rows.y)


def _metrics() -> Cases:
    X, y = rare_labels.shifted(N_ROWS, 0.15, _rng("metrics"))
    model = RandomForestClassifier(N_TREES, min_samples_leaf=2, random_state=0).fit(X, y)
    for metric in LABEL_METRICS:
        yield f"rare label, {metric}", partial(ens_plugin.analyze, model, X, y, metric=metric)
    X, y, *_ = losses.draw(losses.CELLS["t2.5"], _rng("metrics"), N_ROWS)
    model = RandomForestRegressor(N_TREES, random_state=0).fit(X, y)
    for metric in VALUE_METRICS:
        yield f"heavy tails, {metric}", partial(ens_plugin.analyze, model, X, y, metric=metric)


def _held_out() -> Cases:
    X, y = noisy_logistic(N_ROWS, _rng("held out"))
    half = N_ROWS // 2
    model = RandomForestClassifier(N_TREES, random_state=0).fit(X[:half], y[:half])
    for name, start, stop in (("fresh", half, N_ROWS), ("training", 0, half), ("training and fresh", 100, 300)):
        yield f"held out, {name} rows", partial(ens_plugin.analyze, model, X[start:stop], y[start:stop], data="holdout")
    yield (
        "held out, few rows",
        partial(ens_plugin.analyze, model, X[half : half + 25], y[half : half + 25], data="holdout"),
    )


def _stored() -> Cases:
    """Members that store rows: proved by them, or refused."""
    for name, member in training_rows.STORING.items():
        X, y = training_rows.equal_rows(N_ROWS, _rng(name))
        model = BaggingClassifier(member, training_rows.N_STORING, random_state=0).fit(X[:200], y[:200])
        for passed, rows in (("training rows", slice(200)), ("other rows", slice(200, None))):
            yield f"{name}, {passed} as held out", partial(ens_plugin.analyze, model, X[rows], y[rows], data="holdout")
    X, y = friedman1(N_ROWS, _rng("stored"))
    model = BaggingRegressor(KNeighborsRegressor(3), N_TREES, random_state=0).fit(X, y)
    yield "bagged neighbours, values", partial(ens_plugin.analyze, model, X, y)


def _boosters() -> Cases:
    """Forests of boosting libraries, of more rows than the golden cases have."""
    X, y = noisy_logistic(2 * N_ROWS, _rng("boosters"))
    _, values = friedman1(2 * N_ROWS, _rng("boosters"))
    for target, kind in ((y, "Classifier"), (values, "Regressor")):
        if find_spec("lightgbm") is not None:
            import lightgbm

            model = getattr(lightgbm, f"LGBM{kind}")(
                boosting_type="rf", n_estimators=N_TREES, subsample=0.6, subsample_freq=1, n_jobs=1, verbose=-1
            ).fit(X, target)
            yield f"LightGBM {kind}", partial(ens_plugin.analyze, model, X, target)
        if find_spec("xgboost") is not None:
            import xgboost

            model = getattr(xgboost, f"XGBRF{kind}")(n_estimators=N_TREES, random_state=3, n_jobs=1).fit(X, target)
            yield f"XGBoost {kind}", partial(ens_plugin.analyze, model, X, target)


def _others() -> Cases:
    """What else the package computes from a model: no file of these rooms is entered by an analysis."""
    X, y = noisy_logistic(N_ROWS, _rng("others"))
    forest = RandomForestClassifier(N_TREES, random_state=0).fit(X, y)
    few = RandomForestClassifier(8, random_state=0).fit(X, y)
    Xr, yr = friedman1(N_ROWS, _rng("others"))
    values = RandomForestRegressor(N_TREES, random_state=0).fit(Xr, yr)
    report, other = ens_plugin.analyze(forest, X, y), ens_plugin.analyze(few, X, y)
    yield "page", report.to_html
    yield "page of values", ens_plugin.analyze(values, Xr, yr).to_html
    yield "text", partial(str, report)
    yield "comparison", lambda: str(ens_plugin.compare({"many": report, "few": other}))
    for name, model, rows, target in (("labels", forest, X, y), ("few members", few, X, y), ("values", values, Xr, yr)):
        yield f"out-of-bag predictions, {name}", partial(ens_plugin.oob_predictions, model, rows, target)
        yield f"importance, {name}", partial(ens_plugin.oob_permutation_importance, model, rows, target, n_repeats=2)
        yield f"training variance, {name}", partial(ens_plugin.training_variance, model, rows, rows[:50])
    yield "uncertainty", partial(ens_plugin.predict_with_uncertainty, values, Xr, yr, Xr[:50])
    yield "truncated", lambda: ens_plugin.truncate(forest, 11).predict_proba(X)
    yield "scorer", lambda: ens_plugin.make_oob_scorer()(forest, X, y)
    yield "grown", partial(ens_plugin.grow, RandomForestClassifier(random_state=0), X, y, max_size=200)
    yield (
        "grown step by step",
        partial(ens_plugin.grow, RandomForestRegressor(random_state=0), Xr, yr, max_size=300),
    )
    pruned = prune(RandomForestClassifier(N_TREES, random_state=0).fit(X, y), X, y)
    yield "pruned", partial(pruned.predict, X[:100])
    right = ens_plugin.RightSizedClassifier(RandomForestClassifier(random_state=0), max_size=200)
    yield "right-sized", lambda: right.fit(X, y).predict_proba(X[:50])
