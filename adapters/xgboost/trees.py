"""Adapter of XGBoost's random forests and boosters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from ens_plugin.adapters.contract import DistributedBags, EnsembleAdapter, EnsembleInfo, ProofStatistics, merge_sums
from ens_plugin.adapters.members import (
    DrawCounts,
    check_replaced_methods,
    counts_from_bags,
    first_installed,
    several_targets,
)
from ens_plugin.adapters.sklearn.training import training_target
from ens_plugin.adapters.tree_table import MAX_CHANCE
from ens_plugin.adapters.trees import (
    COMPARED_ROWS,
    KEPT_BYTES,
    KeptLeaves,
    RowOrigin,
    hold_split_values,
    judge_origin,
    show_split_values,
)
from ens_plugin.adapters.xgboost.bags import (
    MAX_PROOFS,
    Guess,
    RowSampler,
    Share,
    are_confirmed,
    chance_of_false_match,
    check_settings,
    judge_leaf_sums,
    leaf_sums,
    likely_draws,
    n_draws,
    no_sampling,
    not_likely,
    packed_bags,
    powers_at,
    proved_bags,
    several_rounds,
    too_weak,
    tree_words,
)
from ens_plugin.adapters.xgboost.forest import (
    FULL_RATE,
    Forest,
    LeafReader,
    Rows,
    form_members,
    learning_rate,
    read_forest,
    read_shape,
    shrunken,
    truncated_trees,
)
from ens_plugin.adapters.xgboost.target import Hessians, checkable_trees, hessian_of_a_row, judge_target, target_sums
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.tally import both_scores
from ens_plugin.errors import BagError, DataMismatchError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding


class DrawnTrees(DistributedBags):
    """Bags of an XGBoost booster, drawn by row position and proved by the sums in all leaves of all trees.

    Only likely draws of the booster's own seed are tried: a search for other draws takes all rows at once.
    """

    def __init__(self, forest: Forest, n_rows: int, candidate: int, keep_leaves: Callable[[Rows], None]) -> None:
        check_settings(forest.settings)
        self._forest, self._n_rows, self._keep_leaves = forest, n_rows, keep_leaves
        self._share = _sampled_share(forest, n_rows)
        if self._share.is_whole:
            raise no_sampling()
        guesses = [
            (draws, subsample)
            for subsample in self._share.candidates(forest.settings.subsample)
            for draws in likely_draws(forest, n_rows)
        ]
        self._n_tried = len(guesses)
        if not guesses:
            raise self._not_likely(np.arange(forest.n_trees))
        if candidate >= min(self._n_tried, MAX_PROOFS):
            raise BagError(
                f"No likely draw of the bags ({candidate} tried) gives the sums that the booster's leaves store. "
                "Pass the training rows, in training order."
            )
        self._draws, self._subsample = guesses[candidate]

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        return tree_words(self._draws)

    @cached_property
    def _packed(self) -> Bags:
        return packed_bags(self._guess(RowSampler(self._n_rows, self._subsample)))

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions, drawn for these alone (for all rows with `exact`)."""
        if self._draws.pairs:
            return Bags.from_mask(self._packed.at(rows))
        return Bags.from_mask(RowSampler(rows.size, self._subsample, powers_at(rows)).from_words(self._words))

    def sums(self, rows: NDArray[np.int64], features: Rows, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return sums of second derivatives by leaf of every tree, and of first derivatives of three trees."""
        self._keep_leaves(features)
        y = target.astype(np.float64)
        hessians = Hessians.of(self._forest, features, y)
        sums, sizes = leaf_sums(self._forest, features, hessians, bags)
        by_tree = target_sums(self._forest, features, hessians, bags, y)
        return merge_sums(
            [ProofStatistics({"sums": sums, "sizes": sizes}), *(own.named(tree) for tree, own in by_tree.items())]
        )

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing the sums with those in the leaves, and checking the target."""
        forest = self._forest
        hessians = _unit_hessians(forest)
        proof = judge_leaf_sums(forest, hessians, sums.added["sums"], sums.added["sizes"], self._subsample)
        failed = np.flatnonzero(~proof.passed)
        if failed.size:
            raise self._not_likely(failed)
        guess = self._guess(RowSampler(1, self._subsample))
        chance = chance_of_false_match(guess, proof)
        if chance > MAX_CHANCE:
            raise too_weak(chance, forest.n_trees, n_draws(self._draws))
        by_tree = {tree: sums.of_tree(tree) for tree in checkable_trees(forest)}
        return BagProof(target=judge_target(forest, by_tree))

    def _not_likely(self, failed: NDArray[np.integer[Any]]) -> DataMismatchError | BagError:
        fits = self._share.fits(self._forest.settings.subsample)
        return not_likely(self._forest, self._share.mean, self._n_rows, failed, fits)

    def _guess(self, sampler: RowSampler) -> Guess:
        stretch = np.zeros(self._forest.n_trees, dtype=np.int64)
        return Guess(self._draws, sampler, stretch, {0: self._n_tried})


def _unit_hessians(forest: Forest) -> Hessians:
    """Return the second derivatives of one row of weight 1, before the first round."""
    return Hessians(forest, np.ones(1), forest.base_margin[None, :])


def _sampled_share(forest: Forest, n_rows: int) -> Share:
    """Return the share of the rows that the trees' roots count, computed as if every row had weight 1."""
    hessians = _unit_hessians(forest)
    total = n_rows * np.asarray(hessians.at(slice(0, 1), hessians.first(slice(0, 1))), dtype=np.float64)[0]
    return Share.of_roots(hessians, total, n_rows)


_TWO_LABELS = ("binary:logistic", "binary:logitraw")
_MORE_LABELS = ("multi:softprob", "multi:softmax")
_VALUES = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "reg:pseudohubererror")
_CLOSE = 1e-5
WHOLE = 1e-4
READ_TOGETHER = 32


class XGBoostTreesAdapter(EnsembleAdapter):
    """Adapter of XGBoost's Booster, XGBClassifier, XGBRegressor and XGBRF*, grown with ``num_parallel_tree``.

    A member is one tree, or one tree of every class; its output is the margin the booster would have if
    all its parallel trees were this one.  The mean over members, through the inverse link, is XGBoost's own
    ``predict``, which is checked on a few rows.  :meth:`bags` has one row per tree, in the booster's order:
    XGBoost draws anew for every tree, of every class too.  Its generator starts from small numbers: rows 0
    and 1 are in practically every bag, and are reported as rows without out-of-bag members.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a Booster or a scikit-learn interface of XGBoost."""
        return isinstance(model, (xgboost.Booster, xgboost.XGBModel))

    def __init__(self, model: Any) -> None:
        self.booster = model if isinstance(model, xgboost.Booster) else _booster(model)
        self._shape = read_shape(self.booster)
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is one parallel tree, or one tree of every class."""
        shape, classes = self._shape, None
        if shape.objective in (*_TWO_LABELS, *_MORE_LABELS):
            n_labels = 2 if shape.objective in _TWO_LABELS else shape.n_groups
            classes = np.asarray(getattr(self.model, "classes_", np.arange(n_labels)))
        # One round's trees are read now, to raise errors early; most boosters of more rounds are only refused.
        n_members = self.forest.n_trees // shape.n_groups if shape.n_rounds == 1 else shape.n_trees
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=n_members,
            aggregation="mean" if classes is None else "mean_score",
            output_kind="values" if classes is None else "scores",
            bag_provenance="proved",
            is_row_independent=True,
            member_batch_size=READ_TOGETHER,
            distributions=first_installed("xgboost", "xgboost-cpu"),
            n_outputs=shape.n_outputs,
        )

    def prepare(self, X: Any) -> Rows:
        """Return rows that become a DMatrix block by block; `X` may be a DMatrix itself, with training weights."""
        return Rows(X, self.booster, getattr(self.model, "missing", np.nan))

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the members' mean is what the booster, and the model, predict."""
        self.check_form()
        check_replaced_methods(self.model, features, "xgboost")
        rows = features[spread_rows(features.shape[0], COMPARED_ROWS)]
        outputs = self.outputs(rows)
        mean = outputs.mean(axis=0)
        # The booster adds up its trees in single precision: the error grows with their number, and a small probability
        # has that of its margin.
        rounding = self.n_members * float(np.finfo(np.float32).eps) * float(np.abs(outputs).mean(axis=0).max())
        matrix = rows.matrix()
        if rows.base_margin is not None:
            matrix.set_base_margin(rows.base_margin)
        margin = self.booster.predict(matrix, output_margin=True).reshape(mean.shape)
        pairs = [(mean, margin)]
        if self.forest.objective in ("binary:logistic", "multi:softprob"):
            probability = self.booster.predict(matrix)
            linked = self.inverse_link(both_scores(mean) if mean.ndim == 1 else mean)
            pairs.append((linked if linked.shape == probability.shape else linked[:, 1], probability))
        for ours, theirs in pairs:
            difference = float(np.abs(ours - theirs).max())
            if difference > max(_CLOSE * float(np.abs(theirs).max()), rounding, 1e-12):
                raise UnsupportedModelError(
                    f"The mean over the {self.n_members} parallel trees differs from the booster's own prediction by "
                    f"{difference:.3g}, so its trees do not count alike (dropout, or edited trees). Train "
                    "num_parallel_tree trees in one round with booster='gbtree'."
                )

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the margins or values of the members for the prepared rows."""
        if members is not None:
            return self._range_outputs(members, features)
        by_tree = self._tree_values(features, None if wanted is None else np.tile(wanted, (self.forest.n_groups, 1)))
        return by_tree if self.forest.n_groups == 1 else self._by_class(by_tree).transpose(1, 2, 0)

    def _range_outputs(self, members: range, features: Any) -> NDArray[np.float64]:
        """Return the outputs of some members, read by a copy of the booster that has their trees alone."""
        n_groups = self.forest.n_groups
        trees = [group * self.n_members + member for group in range(n_groups) for member in members]
        if members not in self._range_readers:
            self._range_readers[members] = LeafReader(self.forest, trees)
        outputs = self._tree_outputs(trees, self._range_readers[members].read(features), features)
        return outputs if n_groups == 1 else outputs.reshape(n_groups, len(members), -1).transpose(1, 2, 0)

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the members' outputs and which count; for three labels or more, out-of-bag trees form members.

        Trees of different classes are drawn independently, so any of them form a member: for each row, the
        out-of-bag trees of all classes are combined in order, as many as the class with the fewest has.
        """
        if bags is None or self.forest.n_groups == 1:
            return super().block(features, bags, rows)
        by_tree = ~bags.in_bag(rows)
        is_oob, leaves = self._by_class(by_tree), self._byte_leaves(features, by_tree)
        # By leaf where leaves are bytes, which takes an eighth of the memory, else by row.
        margins = self._leaf_table if leaves is not None else self._by_class(self._tree_values(features, by_tree))
        return form_members(margins, is_oob, leaves)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each tree, in the booster's order, proved by the sums in all its leaves."""
        # Bags of trees for several columns of y are proved without y.
        if y is not None and self.info.n_outputs > 1 and np.ndim(y) > 1:
            y = None
        target = training_target(y, self.classes, features.shape[0])
        self._keep_leaves(features)
        features.kept = None if features.leaves is not None else KeptLeaves(KEPT_BYTES)
        y = None if target is None else target.astype(np.float64)
        return proved_bags(self.forest, features, y)

    def with_training_weight(self, features: Rows, weight: NDArray[np.float64]) -> Rows:
        """Return rows with the weights that the sums in the leaves were computed with."""
        return features.with_weight(weight)

    def verify_rows(self, features: Rows, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth, leaves and split values of the trees."""
        target = training_target(y, self.classes, features.shape[0])
        known = None if target is None else target.astype(np.float64)
        return judge_origin(
            are_confirmed(self.forest, features, known)
            or hold_split_values(features.table, self.forest.table.splits(), np.float32),
            self._leaf_counts(features),
            features.shape[0],
            lambda: show_split_values(features.table, self.forest.table.splits(), np.float32),
        )

    def column_splits(self, features: Rows) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features.table, self.forest.table.splits()

    def _leaf_counts(self, features: Rows) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each tree, the numbers of training rows (1 if weighted) and of given rows in its leaves."""
        self._keep_leaves(features)
        one, covers = hessian_of_a_row(self.forest), self.forest.table.leaf_covers
        if one is None or features.leaves is None:
            return
        counted = [own / one[group] for own, group in zip(covers, self.forest.group, strict=True)]
        found = [np.bincount(leaves, minlength=own.size) for leaves, own in zip(features.leaves, covers, strict=True)]
        # With weights, sums are not counts, so that fewer rows than a sum do not show fresh rows.
        are_counts = all(
            np.abs(own - np.round(own)).max() <= WHOLE * own.max() and bool((reached >= np.round(own)).all())
            for own, reached in zip(counted, found, strict=True)
        )
        for own, reached in zip(counted, found, strict=True):
            yield (np.round(own) if are_counts else np.ones_like(own)).astype(np.int64), reached

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, 0 or 1 times, with the proof of :meth:`bags`."""
        if self.forest.n_groups > 1:
            raise BagError(
                f"The trees of the {self.forest.n_groups} labels of this {type(self.model).__name__} have bags of "
                "their own, so no member has one bag, from which the variance over training sets is estimated. Train "
                "with two labels, or pass a forest of scikit-learn or LightGBM."
            )
        return counts_from_bags(self.bags(X, features, y), "without_replacement")

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning if a learning rate below 1 keeps the predictions near the base score."""
        rate = learning_rate(self.forest)
        own = () if rate is None or rate > FULL_RATE else (shrunken(rate),)
        return (*super().cautions(data), *own)

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are drawn from the booster's seed, for some rows at a time by position."""
        return DrawnTrees(self.forest, n_rows, candidate, self._keep_leaves)

    def truncated(self, size: int) -> Any:
        """Return a booster, or scikit-learn interface, of the first `size` parallel trees of every class.

        Leaf values are scaled by `n_members` / `size`, in XGBoost's float32.  Training parameters stay, so that
        bags can still be redrawn; of several classes, the booster's attributes state how many trees were grown.
        """
        self._check_rounds()
        return truncated_trees(self.model, self.forest, size)

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities for mean margins, shape (n_rows, n_labels); mean values are returned unchanged."""
        if self.classes is None:
            return mean_output
        return np.asarray(softmax(mean_output, axis=1))

    @cached_property
    def forest(self) -> Forest:
        """Return the trees and training parameters of the booster."""
        return read_forest(self.booster)

    @cached_property
    def _reader(self) -> LeafReader:
        return LeafReader(self.forest)

    @cached_property
    def _range_readers(self) -> dict[range, LeafReader]:
        return {}

    @cached_property
    def _leaf_table(self) -> NDArray[np.float64]:
        """Return the margins of all leaves by class, member and leaf, filled up with zeros."""
        table = np.zeros((self.forest.n_trees, int(self.forest.table.n_leaves.max())))
        for row, own in zip(table, self.forest.member_margins, strict=True):
            row[: own.size] = own
        return self._by_class(table)

    def _byte_leaves(self, features: Rows, wanted: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
        """Return leaves by class, member and row, a byte each; None where they are larger or margins differ by row."""
        if self._reader.dtype != np.uint8 or features.base_margin is not None:
            return None
        if features.leaves is not None:
            return self._by_class(features.leaves)
        return self._by_class(self._reader.read(features, wanted))

    def _tree_values(self, features: Rows, wanted: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Return the margin of each tree, as if it were the whole booster, shape (n_trees, n_rows)."""
        leaves = self._reader.read(features, wanted) if features.leaves is None else features.leaves
        return self._tree_outputs(range(self.forest.n_trees), leaves, features)

    def _tree_outputs(self, trees: Sequence[int], leaves: NDArray[Any], features: Rows) -> NDArray[np.float64]:
        """Return the outputs of some trees, by the leaves that rows reach, shape (n_trees, n_rows)."""
        outputs = np.empty(leaves.shape)
        for own, tree, reached in zip(outputs, trees, leaves, strict=True):
            if features.base_margin is None:
                # Clipping never applies; without it, NumPy copies to check that all leaves are there.
                self.forest.member_margins[tree].take(reached, out=own, mode="clip")
            else:
                np.add(
                    self.forest.member_values[tree].take(reached),
                    features.base_margin.T[self.forest.group[tree]],
                    out=own,
                )
        return outputs

    def _keep_leaves(self, features: Rows) -> None:
        n_cells = self.forest.n_trees * features.shape[0]
        if features.leaves is None and n_cells * self._reader.dtype.itemsize <= KEPT_BYTES:
            features.leaves = self._reader.read(features)

    def _by_class(self, by_tree: NDArray[Any]) -> NDArray[Any]:
        return by_tree.reshape(self.forest.n_groups, self.n_members, -1)

    def check_form(self) -> None:
        """Raise UnsupportedModelError for several rounds, and for objectives that no error curve is known for."""
        self._check_rounds()
        shape = self._shape
        if shape.n_outputs > 1:
            raise UnsupportedModelError(several_targets(type(self.model).__name__, shape.n_outputs))
        if shape.objective in (*_TWO_LABELS, *_MORE_LABELS):
            return
        if shape.objective not in _VALUES:
            raise UnsupportedModelError(
                f"Objective {shape.objective!r} ranks rows, or transforms the trees' mean score by a link such as the "
                "exponential, and no error curve is known for either. Train with 'reg:squarederror', 'binary:logistic' "
                "or 'multi:softprob'. ens_plugin.in_bag returns the bags of some further objectives."
            )
        if shape.n_groups > 1:
            raise UnsupportedModelError(
                f"This {type(self.model).__name__} predicts {shape.n_groups} quantiles; ens_plugin covers one. Train "
                "one model for each quantile_alpha."
            )

    def _check_rounds(self) -> None:
        if self._shape.n_rounds > 1:
            shape = self._shape
            raise several_rounds(shape.n_rounds, shape.n_trees // (shape.n_rounds * shape.n_groups))


def _booster(model: Any) -> Any:
    try:
        return model.get_booster()
    except SklearnNotFittedError as error:
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.") from error
