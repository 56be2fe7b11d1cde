"""Results of each tool on one problem: its curve, the size that it recommends, and the trees trained for them."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split, validation_curve

import ens_plugin
from benchmarks.rivals.truth import Members

Array = NDArray[Any]

R_SCRIPT = Path(__file__).with_name("rivals.R")
PLATEAU = 0.01
FOLDS, ROUNDS, PLATEAU_TRIALS = 5, 5, 10


class Rows(NamedTuple):
    """Training rows and fresh rows of one problem; labels are codes."""

    features: Array
    labels: Array
    fresh: Array
    fresh_labels: Array


class Sizes(NamedTuple):
    """Sizes of a run: those compared, those of curves that need a training for each, and the trees of the truth."""

    compared: tuple[int, ...]
    grid: tuple[int, ...]
    all_trees: int

    @property
    def largest(self) -> int:
        """Largest size that is compared."""
        return self.compared[-1]


class Answer(NamedTuple):
    """The error by size, the size by criterion where there is a recommendation, and the trees trained."""

    curve: Mapping[int, float]
    sizes: Mapping[str, float | None]
    n_trees: int


def missing(name: str) -> str | None:
    """Return why a tool is left out, or None if it is here."""
    if name in ("ranger", "randomForest"):
        if shutil.which("Rscript") is None:
            return "R is not installed: apt-get install r-base-core r-cran-ranger r-cran-randomforest"
        command = ["Rscript", "-e", f"quit(status = !requireNamespace('{name}', quietly = TRUE))"]
        found = subprocess.run(command, capture_output=True, check=False)
        return None if found.returncode == 0 else f"apt-get install r-cran-{name.lower()}"
    module = {"YDF": "ydf", "rf-plateau-hpo": "rf_plateau_hpo", "mlxtend": "mlxtend"}.get(name)
    return None if module is None or find_spec(module) is not None else f"pip install {name.lower()}"


def by_plateau(curve: Mapping[int, float]) -> dict[str, float | None]:
    """Return the first size from which on a curve stays within 1 % of its last value, for want of another rule."""
    sizes = np.array(sorted(curve))
    errors = np.array([curve[size] for size in sizes])
    away = np.flatnonzero(np.abs(errors - errors[-1]) > PLATEAU * errors[-1])
    size = float(sizes[0 if away.size == 0 else away[-1] + 1])
    return {"agreement": size, "error": size}


def ours(n_trees: int) -> Callable[[Rows, Sizes, int], Answer]:
    """Return the analysis of this package, from `n_trees` trees."""

    def answer(rows: Rows, sizes: Sizes, seed: int) -> Answer:
        forest = RandomForestClassifier(n_trees, random_state=seed).fit(rows.features, rows.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            report = ens_plugin.analyze(forest, rows.features, rows.labels)
            by_error = ens_plugin.analyze(forest, rows.features, rows.labels, criterion="error", tolerance=PLATEAU)
        agreement = next(each.size for each in report.criteria if each.criterion == "agreement")
        found = {"agreement": agreement, "error": by_error.recommended_size, "default": report.recommended_size}
        return Answer({size: report.error_curve.at(size) for size in sizes.compared}, found, n_trees)

    return answer


def loop(rows: Rows, sizes: Sizes, seed: int) -> Answer:
    """Run the loop of scikit-learn's documentation: grow by a few trees, score out of bag, repeat."""
    forest = RandomForestClassifier(warm_start=True, oob_score=True, random_state=seed)
    curve = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores", category=UserWarning)
        for size in range(sizes.compared[0], sizes.largest + 1, sizes.compared[0]):
            forest.set_params(n_estimators=size).fit(rows.features, rows.labels)
            curve[size] = 1.0 - float(forest.oob_score_)
    return Answer(curve, by_plateau(curve), sizes.largest)


def folds(rows: Rows, sizes: Sizes, seed: int) -> Answer:
    """Run scikit-learn's validation curve over the number of trees."""
    forest = RandomForestClassifier(random_state=seed)
    _, scores = validation_curve(
        forest, rows.features, rows.labels, param_name="n_estimators", param_range=sizes.grid, cv=FOLDS
    )
    curve = dict(zip(sizes.grid, 1.0 - scores.mean(axis=1), strict=True))
    return Answer(curve, by_plateau(curve), FOLDS * sum(sizes.grid))


def decomposition(rows: Rows, sizes: Sizes, seed: int) -> Answer:
    """Run mlxtend's `bias_variance_decomp` at each size, with a quarter of the training rows held out, as it needs."""
    from mlxtend.evaluate import bias_variance_decomp

    train, test, labels, test_labels = train_test_split(
        rows.features, rows.labels, test_size=0.25, random_state=seed, stratify=rows.labels
    )
    curve = {}
    for size in sizes.compared:
        forest = RandomForestClassifier(size, random_state=seed)
        loss, _, _ = bias_variance_decomp(
            forest, train, labels, test, test_labels, loss="0-1_loss", num_rounds=ROUNDS, random_seed=seed
        )
        curve[size] = float(loss)
    return Answer(curve, {}, ROUNDS * sum(sizes.compared))


def plateau(rows: Rows, sizes: Sizes, seed: int) -> Answer:
    """Run rf-plateau-hpo on scikit-learn's default forest, all its other parameters held, by out-of-bag accuracy."""
    from rf_plateau_hpo.core import tune_rf_oob_plateau

    _, size, study, _ = tune_rf_oob_plateau(
        rows.features,
        rows.labels,
        "clf",
        lambda y, probability: float(np.mean(probability.argmax(axis=1) == y)),
        True,
        max_features_grid=("sqrt",),
        max_depth_range=(1000, 1000),
        min_samples_leaf_range=(1, 1),
        min_samples_split_range=(2, 2),
        tune_criterion=False,
        n_trials=PLATEAU_TRIALS,
        n_jobs=1,
        random_state=seed,
        refit=False,
    )
    found = None if size is None else float(size)
    trees = sum(trial.user_attrs["trees_built"] for trial in study.trials)
    return Answer({}, {"agreement": found, "error": found}, trees)


def ydf_model(features: Array, labels: Array, n_trees: int, seed: int, *, curve: bool) -> Any:
    """Train YDF's random forest, with or without the log of its out-of-bag error."""
    import ydf

    ydf.verbose(0)
    learner = ydf.RandomForestLearner(
        label="target", num_trees=n_trees, random_seed=seed, num_threads=1, compute_oob_performances=curve
    )
    return learner.train(_frame(features).assign(target=labels))


def ydf_curve(rows: Rows, sizes: Sizes, seed: int) -> Answer:
    """Read the out-of-bag evaluations in the training log of YDF's forest."""
    model = ydf_model(rows.features, rows.labels, sizes.largest, seed, curve=True)
    curve = {each.iteration: 1.0 - each.evaluation.accuracy for each in model.out_of_bag_evaluations()}
    return Answer(curve, by_plateau(curve), sizes.largest)


def sklearn_members(rows: Rows, sizes: Sizes, seed: int) -> Members:
    """Grow scikit-learn's forest for the truth, under another seed than the tools'."""
    forest = RandomForestClassifier(sizes.all_trees, random_state=seed + 10_000).fit(rows.features, rows.labels)

    def outputs(features: Array) -> Array:
        return np.array([tree.predict_proba(features) for tree in forest.estimators_], dtype=np.float32)

    out_of_bag = ~ens_plugin.in_bag(forest, rows.features, rows.labels)
    return Members(outputs(rows.fresh.astype(np.float32)), outputs(rows.features.astype(np.float32)), out_of_bag)


def ydf_members(rows: Rows, sizes: Sizes, seed: int) -> Members:
    """Grow YDF's forest for the truth on fresh rows; it keeps no record of its bags."""
    from ens_plugin.adapters.registry import find_adapter

    model = ydf_model(rows.features, rows.labels, sizes.all_trees, seed + 10_000, curve=False)
    adapter = find_adapter(model)
    prepared = adapter.prepare(_frame(rows.fresh))
    # YDF numbers its labels by their frequency.
    codes = np.array(model.label_classes()).astype(int)[adapter.outputs(prepared)]
    return Members(_by_label(codes, int(rows.labels.max()) + 1), None, None)


def _by_label(codes: Array, n_labels: int) -> Array:
    """Return the codes of labels as votes, with an entry for each label."""
    return np.asarray(codes[:, :, None] == np.arange(n_labels), dtype=np.float32)


def r_run(
    package: str, rows: Rows, n_trees: int, sizes: tuple[int, ...], seed: int
) -> tuple[dict[int, float], Members | None, Array | None]:
    """Run a package of R: its curve, the votes of its trees if they are more than the largest size, else its times."""
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        _frame(rows.features).assign(target=rows.labels).to_csv(folder / "train.csv", index=False)
        _frame(rows.fresh).assign(target=rows.fresh_labels).to_csv(folder / "fresh.csv", index=False)
        numbers = [str(seed), str(n_trees), ",".join(map(str, sizes))]
        subprocess.run(["Rscript", str(R_SCRIPT), str(folder), package, *numbers], check=True, capture_output=True)
        found = pd.read_csv(folder / "curve.csv")
        curve = {int(size): float(error) for size, error in zip(found["size"], found["error"], strict=True)}
        if n_trees <= max(sizes):
            return curve, None, pd.read_csv(folder / "times.csv").to_numpy()
        n_labels = int(rows.labels.max()) + 1
        fresh, same, in_bag = (
            np.frombuffer((folder / name).read_bytes(), dtype=np.uint8).reshape(n_trees, -1)
            for name in ("fresh_votes", "train_votes", "in_bag")
        )
        return curve, Members(_by_label(fresh, n_labels), _by_label(same, n_labels), in_bag == 0), None


def _frame(features: Array) -> pd.DataFrame:
    return pd.DataFrame(features, columns=[f"x{column}" for column in range(features.shape[1])])


def python_tools(sizes: Sizes) -> dict[str, tuple[str, Callable[[Rows, Sizes, int], Answer]]]:
    """Return the tools of Python by name, each with the library whose forests it is about."""
    few = sizes.compared[1]
    return {
        f"ens_plugin, from {few} trees": ("scikit-learn", ours(few)),
        f"ens_plugin, from {sizes.largest} trees": ("scikit-learn", ours(sizes.largest)),
        "scikit-learn's warm-start loop": ("scikit-learn", loop),
        f"scikit-learn's validation curve, {FOLDS} folds": ("scikit-learn", folds),
        "mlxtend": ("scikit-learn", decomposition),
        "rf-plateau-hpo": ("scikit-learn", plateau),
        "YDF": ("YDF", ydf_curve),
    }
