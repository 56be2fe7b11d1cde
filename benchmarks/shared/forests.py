"""Forests of the benchmarks, reduced to their members' outputs, and kept on disk: growing them is the slow part."""

from __future__ import annotations

import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from tqdm import tqdm

from benchmarks.shared.problems import FORMULAS, friedman1, load_real

Array = NDArray[Any]
Record = dict[str, Array]

DEFAULT_CACHE = Path(tempfile.gettempdir()) / "ens_plugin_benchmarks"
TRAINING_ROWS = {
    "twonorm": 300,
    "ringnorm": 300,
    "circle": 300,
    "spiral": 300,
    "noisy logistic": 500,
    "digits": 600,
    "friedman1": 300,
}
FRESH_ROWS = {"twonorm": 20_000, "ringnorm": 20_000, "noisy logistic": 20_000, "friedman1": 4_000}
HELD_OUT_ROWS = 2_000
FEW = 50
PREFIXES = (FEW, 100, 200)
FRESH_PREFIXES = (50, 200, 500)


class Plan(NamedTuple):
    """One forest: the problem, its size, and which repetition this is.

    `n_rows` None means all rows of a real data set; `fresh_rows` are drawn after training, where a formula allows it.
    """

    problem: str
    n_rows: int | None
    n_trees: int
    max_depth: int | None
    fresh_rows: int
    seed: int
    repetition: int

    def sample(self) -> tuple[Array, Array, np.random.Generator]:
        """Training rows, and the random numbers that are left for the rest."""
        rng = random_numbers(self.problem, self.seed, self.repetition)
        if self.problem in FORMULAS:
            assert self.n_rows is not None
            return *FORMULAS[self.problem].sample(self.n_rows, rng), rng
        if self.problem == "friedman1":
            assert self.n_rows is not None
            return *friedman1(self.n_rows, rng), rng
        return *load_real(self.problem, self.n_rows, rng), rng

    def forest_seed(self) -> int:
        return zlib.crc32(repr(self).encode()) % 2**31


def random_numbers(problem: str, seed: int, repetition: int) -> np.random.Generator:
    """Random numbers of one repetition on one problem, whatever else is run."""
    return np.random.default_rng([seed, zlib.crc32(problem.encode()), repetition])


def out_of_bag(forest: RandomForestClassifier | RandomForestRegressor, n_rows: int) -> NDArray[np.bool_]:
    """Out-of-bag mask from scikit-learn's own record, shape (n_members, n_rows)."""
    mask = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_):
        mask[member, rows] = False
    return mask


def leaf_values(tree: Any, features: Array) -> Array:
    """Return the output of one tree for float32 rows: label shares (or one value), shape (n_rows, n_labels)."""
    return np.asarray(np.asarray(tree.tree_.value)[tree.tree_.apply(features), 0])


def hard_votes(plan: Plan) -> Record:
    """Count wrong out-of-bag votes after 50, 100, 200 and all trees, and the error on fresh rows.

    Returns
    -------
    dict
        ``wrong_M`` and ``trials_M``, shape (n_rows,), for each number of trees M; ``fresh_error_M``, the error of the
        forest's first M trees on fresh rows (ties count half), for problems by formula.
    """
    features, y, rng = plan.sample()
    forest = RandomForestClassifier(plan.n_trees, max_depth=plan.max_depth, random_state=plan.forest_seed())
    forest.fit(features, y)
    codes = np.searchsorted(forest.classes_, y)
    rows = features.astype(np.float32)
    wrong = np.stack([leaf_values(tree, rows).argmax(axis=1) != codes for tree in forest.estimators_])
    is_oob = out_of_bag(forest, y.size)
    record: Record = {}
    for size in {*PREFIXES, plan.n_trees}:
        record[f"wrong_{size}"] = np.count_nonzero(wrong[:size] & is_oob[:size], axis=0)
        record[f"trials_{size}"] = np.count_nonzero(is_oob[:size], axis=0)
    if plan.fresh_rows:
        fresh = FORMULAS[plan.problem].sample(plan.fresh_rows, rng)
        record.update(_fresh_errors(forest.estimators_, *fresh))
    return record


def seed_votes(plan: Plan) -> Record:
    """Grow one of many forests that differ in the seed only, and predict the same held-out rows with it.

    Returns
    -------
    dict
        ``labels`` and ``in_bag``, shape (n_trees, n_rows), and ``target``; ``wrong``, whether the forest is wrong about
        each held-out row, shape (fresh_rows,); ``held_out_labels`` and ``held_out_target`` of the first 2000 of them.
    """
    features, y, rng = plan._replace(repetition=0).sample()
    fresh, fresh_y = FORMULAS[plan.problem].sample(plan.fresh_rows, rng)
    forest = RandomForestClassifier(plan.n_trees, random_state=plan.forest_seed()).fit(features, y)
    labels = np.stack([leaf_values(tree, features.astype(np.float32)).argmax(axis=1) for tree in forest.estimators_])
    held_out = np.stack([leaf_values(tree, fresh.astype(np.float32)).argmax(axis=1) for tree in forest.estimators_])
    return {
        "labels": labels.astype(np.uint8),
        "in_bag": ~out_of_bag(forest, y.size),
        "target": y,
        "wrong": (2 * held_out.sum(axis=0) > plan.n_trees) != fresh_y,
        "held_out_labels": held_out[:, :HELD_OUT_ROWS].astype(np.uint8),
        "held_out_target": fresh_y[:HELD_OUT_ROWS],
    }


def _fresh_errors(trees: Sequence[Any], features: Array, y: Array) -> Record:
    rows = features.astype(np.float32)
    wrong_votes = np.zeros(y.size)
    record: Record = {}
    for count, tree in enumerate(trees[: max(FRESH_PREFIXES)], start=1):
        wrong_votes += leaf_values(tree, rows).argmax(axis=1) != y
        if count in FRESH_PREFIXES:
            excess = np.sign(wrong_votes - count / 2)
            record[f"fresh_error_{count}"] = np.asarray(np.mean((excess + 1) / 2))
    return record


def kept(cache: Path, what: str, plan: Plan, grow: Callable[[Plan], Mapping[str, Array]]) -> Record:
    """Return the record that `grow` makes of a plan, from the disk if it was made before."""
    words = " ".join([what, *map(str, plan), sklearn.__version__])
    path = cache / f"{re.sub('[^A-Za-z0-9.]+', '-', words)}.npz"
    if path.exists():
        with np.load(path) as stored:
            return dict(stored)
    record = dict(grow(plan))
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache, suffix=".part", delete=False) as file:
        np.savez_compressed(file, allow_pickle=False, **record)
    Path(file.name).replace(path)
    return record


def grow_all(
    cache: Path, what: str, plans: Sequence[Plan], grow: Callable[[Plan], Mapping[str, Array]], n_jobs: int
) -> list[Record]:
    """Return one record for every plan, in order, with progress on stderr."""
    calls = (joblib.delayed(kept)(cache, what, plan, grow) for plan in plans)
    records = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    name = f"{plans[0].problem}, {what}"
    return list(tqdm(records, desc=name, total=len(plans), file=sys.stderr, mininterval=5))
