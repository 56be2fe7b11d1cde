"""The adapter of LightGBM's random forests, which are trained by boosting in ``rf`` mode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from lightgbm import Booster, LGBMModel
from lightgbm.basic import LightGBMError
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.capabilities import (
    CountsDraws,
    Distributable,
    RowOrigin,
    SettlesRows,
    SumsValues,
    Truncatable,
    VerifiesRows,
)
from ens_plugin.adapters.lightgbm.bags import positive_rows, read_sampling
from ens_plugin.adapters.lightgbm.booster import check_mode, fitted_booster, labels_of
from ens_plugin.adapters.lightgbm.data import PreparedRows, prepare_table
from ens_plugin.adapters.lightgbm.document.text import ModelText, parse_model, split_values
from ens_plugin.adapters.lightgbm.document.tree_walk import TreeWalk
from ens_plugin.adapters.lightgbm.document.truncation import truncated_forest
from ens_plugin.adapters.lightgbm.objective import Objective, read_objective
from ens_plugin.adapters.lightgbm.proof import Grown, count_grown, fill_every_leaf, prove_bags
from ens_plugin.adapters.lightgbm.row_bags import DrawnRows
from ens_plugin.adapters.lightgbm.target import checked_trees, judge_leaf_targets, target_sums
from ens_plugin.adapters.lightgbm.values import check_not_refit
from ens_plugin.adapters.shared.distributed_bags import DistributedBags
from ens_plugin.adapters.shared.draws import DrawCounts, counts_from_bags
from ens_plugin.adapters.shared.replaced_methods import check_replaced_methods
from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin
from ens_plugin.adapters.shared.trees.split_values import hold_split_values, show_split_values
from ens_plugin.adapters.sklearn.data import training_target
from ens_plugin.core.stopping import StoppingTable
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.core.tallies.tally import both_scores
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    UnsupportedModelError,
)

__all__ = ["LightGBMForestAdapter"]

# Leaves computed for the proof are kept for the outputs up to this size; else they are computed twice.
KEPT_BYTES = 64_000_000
# Leaves that LightGBM returns in one call, and from how many trees: few enough to stay in the cache.  Each
# call reads the rows again, which for wide or unconverted tables costs more than it saves.
WALKED_CELLS = 500_000
WALKED_TREES = 16
MOST_FEATURES = 64
# LightGBM takes a quarter longer for blocks of 1000 rows than for those of 10 000.
COUNTED_BYTES = 24_000_000
COMPARED_ROWS = 16
LEAF_CHARACTERS = 200  # eight values or more
AGREEMENT = 1e-5


class LightGBMForestAdapter(
    EnsembleAdapter, VerifiesRows, CountsDraws, Distributable, Truncatable, SettlesRows, SumsValues
):
    """Adapter of LightGBM's Booster, LGBMClassifier and LGBMRegressor in ``rf`` mode.

    A member is one iteration: a tree, or one tree for each label.  Members are averaged by their raw
    scores, as in LightGBM.  Bags are drawn again from the seed in the model, and used only when
    they fit the leaf counts of every tree.

    Examples
    --------
    >>> import numpy as np
    >>> from lightgbm import LGBMRegressor
    >>> X = np.arange(200.0)[:, None]
    >>> model = LGBMRegressor(
    ...     boosting_type="rf", n_estimators=5, subsample=0.5, subsample_freq=1, random_state=0, verbose=-1
    ... ).fit(X, X[:, 0])
    >>> adapter = LightGBMForestAdapter(model)
    >>> features = adapter.prepare(X)
    >>> adapter.outputs(features).shape, adapter.bags(X, features, None).in_bag().shape
    ((5, 200), (5, 200))
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a Booster or a scikit-learn interface of LightGBM."""
        return isinstance(model, (Booster, LGBMModel))

    def __init__(self, model: Any) -> None:
        self._booster = fitted_booster(model)
        # One tree is enough to refuse a boosted model, which may have many.
        check_mode(parse_model(self._booster.model_to_string(num_iteration=1)))
        # Without num_iteration, the text holds the iterations that predict uses: those up to the best one.
        self._text: ModelText = parse_model(self._booster.model_to_string())
        self._objective: Objective = read_objective(self._text.header.get("objective"))
        self._values = [tree.floats("leaf_value") for tree in self._text.trees]
        self._is_linear = any(tree.has_linear_leaves for tree in self._text.trees)
        self._leaf_dtype = np.min_scalar_type(max(value.size for value in self._values) - 1)
        categories = getattr(self._booster, "pandas_categorical", None)
        self._walk = TreeWalk(self._text, self._booster.num_feature(), self._leaf_dtype, categories)
        self._n_compared = 0
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is one iteration."""
        classes = labels_of(self.model, self._objective)
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=len(self._text.trees) // self._text.trees_per_iteration,
            aggregation="mean" if classes is None else "mean_score",
            output_kind="values" if classes is None else "scores",
            bag_provenance="proved",
            is_row_independent=not self._is_linear,
            member_batch_size=WALKED_TREES,
            distributions=("lightgbm",),
        )

    def prepare(self, X: Any) -> PreparedRows:
        """Return X as a table, after comparing the members' mean with LightGBM's ``predict`` on the first rows."""
        rows = PreparedRows(prepare_table(self._booster, X))
        self._walk.compare(rows.table, self._own_leaves)
        if self._objective.is_covered and self._n_compared < COMPARED_ROWS and rows.shape[0]:
            self._compare_with_predict(rows)
            self._n_compared += rows.shape[0]
        return rows

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError if a subclass or a patch predicts something else than LightGBM's own class."""
        check_replaced_methods(self.model, features, "lightgbm")

    @property
    def reads_few_rows_fast(self) -> bool:
        """Whether the compiled walk reads the outputs."""
        return self._walk.is_by_bits

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the raw scores or values of the iterations for the prepared rows."""
        self._check_covered()
        chosen = members or range(self.n_members)
        if self._is_linear:
            return outputs_by_member(self._linear_outputs, chosen, features, wanted)
        is_kept = members is None and features.leaves is not None
        if members is None and not is_kept:
            walked = self._walk.values(features, self._values)
            if walked is not None:
                return self._by_member(walked)
        return self._scores(chosen, features.leaves if is_kept else self._leaves(features.table, members, wanted))

    def settled_sums(
        self, features: PreparedRows, stops: StoppingTable
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
        """Return sums of the scores of rows up to the iteration that settles each; None without the compiled walk."""
        self._check_covered()
        return None if self._is_linear else self._walk.stopped_sums(features, self._values, stops)

    def value_sums(self, features: PreparedRows, bags: Bags | None) -> NDArray[np.float64] | None:
        """Return sums of scores or values over the iterations of each row; None without the compiled walk."""
        self._check_covered()
        if self._is_linear or features.leaves is not None or self._text.trees_per_iteration > 1:
            return None
        return self._walk.value_sums(features, self._values, bags)

    def _linear_outputs(self, member: int, features: PreparedRows) -> NDArray[np.float64]:
        return np.asarray(self._predict(features.table, raw_score=True, start_iteration=member, num_iteration=1))

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each iteration, redrawn from the seed and proved by the leaf counts of all trees."""
        sampling = read_sampling(self._text.parameters)
        check_not_refit(self._text, self._objective)
        n_rows = features.shape[0]
        target = training_target(y, self.classes, n_rows)
        positive = positive_rows(sampling, target)
        if not self._walk.is_by_bits:
            self._keep_leaves(features)
        bags = prove_bags(self._text, sampling, n_rows, positive, partial(self._count_grown, features))
        is_proved = target is not None and self._check_target(features, bags, target)
        return bags.with_proof(BagProof(target=is_proved))

    def verify_rows(self, features: PreparedRows, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by the leaves they fill and the values that trees split at."""
        return judge_origin(
            self._are_training_rows(features, y),
            self._leaf_counts(features),
            features.shape[0],
            lambda: show_split_values(features.table, split_values(self._text), np.float64),
        )

    def fingerprint(self) -> tuple[bytes, ...]:
        """Return the beginnings of the leaf values of three trees, as in the model's text."""
        trees = self._text.trees
        chosen = sorted({0, len(trees) // 2, len(trees) - 1})
        return tuple(f"leaf_value={trees[tree].lines['leaf_value'][:LEAF_CHARACTERS]}".encode() for tree in chosen)

    def column_splits(self, features: PreparedRows) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features.table, split_values(self._text)

    def _are_training_rows(self, features: PreparedRows, y: ArrayLike) -> bool:
        self._keep_leaves(features)
        if self._fill_leaves(features, y):
            return True
        # LightGBM takes thresholds from all rows of training: if all trees share a bag, its other rows are held out.
        has_bags = self._trees_in_turn() < self.n_members
        return has_bags and hold_split_values(features.table, split_values(self._text), np.float64)

    def _leaf_counts(self, features: PreparedRows) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the numbers of training and given rows in the leaves of each tree, if `features` stores these."""
        for index, tree in enumerate(self._text.trees if features.leaves is not None else ()):
            if tree.n_leaves > 1:
                assert features.leaves is not None
                yield tree.integers("leaf_count"), np.bincount(features.leaves[index], minlength=tree.n_leaves)

    def _fill_leaves(self, features: PreparedRows, y: ArrayLike) -> bool:
        if self._is_linear and features.leaves is None:
            features = PreparedRows(features.table, self._leaves(features.table))
        try:
            sampling = read_sampling(self._text.parameters)
            positive = positive_rows(sampling, training_target(y, self.classes, features.shape[0]))
            prove_bags(self._text, sampling, features.shape[0], positive, partial(self._count_grown, features))
        except (BagError, DataMismatchError):
            return fill_every_leaf(self._text, features.shape[0], self._leaf_blocks(features))
        return True

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, 0 or 1 times, with the proof of :meth:`bags`."""
        return counts_from_bags(self.bags(X, features, y), "without_replacement")

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are drawn from the model's seed, for some rows at a time by position."""
        sampling = read_sampling(self._text.parameters)
        check_not_refit(self._text, self._objective)
        return DrawnRows(self._text, sampling, self._objective, n_rows, candidate, self._kept_leaves)

    def _kept_leaves(self, features: PreparedRows) -> NDArray[Any]:
        self._keep_leaves(features)
        return self._leaves(features.table) if features.leaves is None else features.leaves

    def cautions(self, data: str) -> tuple[str, ...]:
        """Return a warning of trees that share their bag."""
        together = self._trees_in_turn()
        if together == 1:
            return ()
        return (
            f"Each {together} trees in turn share a bag (bagging_freq={together}) and resemble each other. The "
            "curve takes them for independent: it is too flat, and the recommended size too small, by a factor of "
            f"up to {together}. Train with bagging_freq=1.",
        )

    def _trees_in_turn(self) -> int:
        """Return the number of consecutive trees that share a bag."""
        return min(int((self._text.parameters or {}).get("bagging_freq", "1")), self.n_members)

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities for mean raw scores of shape (n_rows, n_labels), as ``predict`` does."""
        return self._objective.inverse_link(mean_output)

    def truncated(self, size: int) -> Any:
        """Return a forest of the first `size` iterations."""
        return truncated_forest(self.model, self._booster, size)

    def _scores(self, members: range, leaves: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of the leaves that rows reach, (n_members, n_rows) or (n_members, n_rows, n_labels)."""
        n_trees = self._text.trees_per_iteration
        values = self._values[members.start * n_trees : members.stop * n_trees]
        by_tree = np.empty(leaves.shape)
        for own, value, reached in zip(by_tree, values, leaves, strict=True):
            # Clipping never applies; without it, NumPy copies to check that all leaves are there.
            value.take(reached, out=own, mode="clip")
        return self._by_member(by_tree)

    def _by_member(self, by_tree: NDArray[np.float64]) -> NDArray[np.float64]:
        n_trees = self._text.trees_per_iteration
        return by_tree if n_trees == 1 else by_tree.reshape(-1, n_trees, by_tree.shape[1]).transpose(0, 2, 1)

    def _check_covered(self) -> None:
        if not self._objective.is_covered:
            name = self._objective.name + (" with reg_sqrt" if self._objective.square_root else "")
            raise UnsupportedModelError(
                f"The objective of this forest is {name}, whose prediction is not the mean of its trees' values. The "
                "error curve is known for means of values and for labels only. Train with a regression objective "
                "without link, or with binary or multiclass; ens_plugin.in_bag works for this model as it is."
            )

    def _compare_with_predict(self, rows: PreparedRows) -> None:
        chosen = spread_rows(rows.shape[0], COMPARED_ROWS)
        some = rows[chosen]
        outputs = self.outputs(some)
        if self._objective.name == "binary":
            outputs = both_scores(outputs)
        ours = self.inverse_link(outputs.mean(axis=0))
        ours = ours[:, 1] if self._objective.name == "binary" else ours
        own = np.asarray(self._predict(some.table))
        scale = float(np.abs(own).max())
        worst = float(np.abs(ours - own).max())
        if worst > AGREEMENT * scale:
            raise UnsupportedModelError(
                f"The mean over all members differs by {worst:.3g} from what LightGBM {_release()} predicts itself "
                f"(values up to {scale:.3g}), so the members' outputs are not known. Please report this with the "
                "model's parameters. Until then, pass outputs of your own as an ens_plugin.CustomEnsemble."
            )

    def _predict(self, table: Any, **options: Any) -> Any:
        try:
            return self._booster.predict(table, num_threads=effective_n_jobs(None), **options)
        except (LightGBMError, ValueError, TypeError) as error:
            raise InputError(
                f"LightGBM cannot predict these rows: {error}. Pass the columns that the model was trained on."
            ) from error

    def _own_leaves(self, table: Any) -> NDArray[Any]:
        """Return the leaf that LightGBM itself finds for each row in every tree, shape (n_rows, n_trees)."""
        return np.asarray(self._predict(table, pred_leaf=True)).reshape(table.shape[0], -1)

    def _leaves(
        self, table: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the leaf that each row reaches in every tree, or in those of some members: (n_trees, n_rows).

        `wanted` is by member; leaves that are not wanted may be any leaf.
        """
        members = members or range(self.n_members)
        n_trees = self._text.trees_per_iteration
        by_tree = wanted if wanted is None or n_trees == 1 else np.repeat(wanted, n_trees, axis=0)
        trees = range(members.start * n_trees, members.stop * n_trees)
        walked = self._walk.leaves(PreparedRows(table), trees, by_tree)
        return self._leaves_by_blocks(table, members, n_trees) if walked is None else walked

    def _leaves_by_blocks(self, table: Any, members: range, n_trees: int) -> NDArray[Any]:
        """Return the leaves of :meth:`_leaves` as LightGBM finds them, some rows and trees at a time."""
        is_narrow = isinstance(table, np.ndarray) and table.shape[1] <= MOST_FEATURES
        at_once = max(WALKED_TREES // n_trees, 1) if is_narrow else len(members)
        leaves = np.empty((len(members) * n_trees, table.shape[0]), dtype=self._leaf_dtype)
        start = 0
        for part in PreparedRows(table).blocks(max(WALKED_CELLS // (at_once * n_trees), 1)):
            rows = slice(start, start + part.shape[0])
            for first in range(0, len(members), at_once):
                chosen = members[first : first + at_once]
                walked = self._predict(
                    part.table, pred_leaf=True, start_iteration=chosen.start, num_iteration=len(chosen)
                )
                own = slice(first * n_trees, (first + len(chosen)) * n_trees)
                leaves[own, rows] = walked.reshape(part.shape[0], -1).astype(self._leaf_dtype).T
            start = rows.stop
        return leaves

    def _keep_leaves(self, features: PreparedRows) -> None:
        n_bytes = len(self._text.trees) * features.shape[0] * self._leaf_dtype.itemsize
        if features.leaves is None and not self._is_linear and n_bytes <= KEPT_BYTES:
            features.leaves = self._leaves(features.table)

    def _count_grown(
        self, features: PreparedRows, grown: Grown, rounds: Bags
    ) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        bag_of = np.repeat(grown.round_of, self._text.trees_per_iteration)
        counted = None if features.leaves is not None else self._walk.count(features, rounds, bag_of)
        if counted is None:
            return count_grown(grown, rounds, self._leaf_blocks(features))
        found, reached = ([own[tree] for tree in grown.trees] for own in counted)
        return found, reached

    def _leaf_blocks(self, features: PreparedRows) -> Iterator[tuple[slice, NDArray[Any]]]:
        # Bags are unpacked by whole bytes.
        rows_at_once = max(COUNTED_BYTES // len(self._text.trees) // 8, 1) * 8
        start = 0
        for block in features.blocks(rows_at_once):
            rows = slice(start, start + block.shape[0])
            yield rows, self._leaves(block.table) if block.leaves is None else block.leaves
            start = rows.stop

    def _check_target(self, features: PreparedRows, bags: Bags, target: NDArray[Any]) -> bool:
        n_trees, sums = self._text.trees_per_iteration, {}
        for tree in checked_trees(self._text):
            member = tree // n_trees
            if features.leaves is not None:
                leaves = features.leaves[tree]
            else:
                leaves = self._leaves(features.table, range(member, member + 1))[tree % n_trees]
            sums[tree] = target_sums(self._text, self._objective, tree, leaves, target, bags.member(member))
        return judge_leaf_targets(self._text, self._objective, sums)


def _release() -> str:
    from lightgbm import __version__

    return str(__version__)
