"""Adapter of XGBoost's random forests and boosters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xgboost
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo
from ens_plugin.adapters.members import (
    DrawCounts,
    counts_from_bags,
    first_installed,
    several_targets,
)
from ens_plugin.adapters.sklearn.training import check_predictions, training_target
from ens_plugin.adapters.trees import COMPARED_ROWS, RowOrigin, compare_split_values, judge_origin
from ens_plugin.adapters.xgboost.bags import are_confirmed, bags_by_position, proved_bags
from ens_plugin.adapters.xgboost.forest import (
    FULL_RATE,
    TREES_TOGETHER,
    Forest,
    form_members,
    learning_rate,
    shrunken,
    truncated_trees,
)
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.adapters.xgboost.target import SOFTMAX, unit_hessians
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import IntArray
from ens_plugin.errors import BagError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding

KNOWN = (xgboost.Booster, xgboost.XGBClassifier, xgboost.XGBRegressor, xgboost.XGBRFClassifier, xgboost.XGBRFRegressor)
# So many trees take little longer to read than one, because each reading makes a copy of the booster.
QUERIED_TOGETHER = 32
_VALUES = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "reg:pseudohubererror")
_TWO_LABELS = ("binary:logistic", "binary:logitraw")
# Relative difference of predictions that single precision explains, and of a sum of rows of weight 1 from their number.
CLOSE, WHOLE = 1e-5, 1e-4


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
        self.forest = Forest(self.booster)
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is one parallel tree, or one tree of every class."""
        forest, classes = self.forest, None
        if forest.objective in (*_TWO_LABELS, *SOFTMAX):
            n_labels = 2 if forest.objective in _TWO_LABELS else forest.n_groups
            classes = np.asarray(getattr(self.model, "classes_", np.arange(n_labels)))
        n_members = forest.n_trees
        if forest.n_rounds == 1:
            # Read now, to raise errors early.
            n_members = len(forest.trees) // forest.n_groups
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=n_members,
            aggregation="mean" if classes is None else "mean_score",
            output_kind="values" if classes is None else "scores",
            bag_provenance="proved",
            is_row_independent=True,
            member_batch_size=QUERIED_TOGETHER,
            distributions=first_installed("xgboost", "xgboost-cpu"),
            n_outputs=forest.n_outputs,
        )

    def prepare(self, X: Any) -> Rows:
        """Return rows that become a DMatrix block by block; `X` may be a DMatrix itself, with training weights."""
        return Rows(X, self.booster, getattr(self.model, "missing", np.nan))

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the members' mean is what the booster, and the model, predict."""
        self.check_form()
        check_predictions(self, features, KNOWN)
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
            if difference > max(CLOSE * float(np.abs(theirs).max()), rounding, 1e-12):
                raise UnsupportedModelError(
                    f"The mean over the {self.n_members} parallel trees differs from the booster's own prediction by "
                    f"{difference:.3g}, so its trees do not count alike (dropout, or edited trees). Train "
                    "num_parallel_tree trees in one round with booster='gbtree'."
                )

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the margins or values of the members for the prepared rows."""
        chosen, n_groups = members or range(self.n_members), self.forest.n_groups
        values = self._values(features, chosen).reshape(n_groups, len(chosen), -1)
        outputs = self._margins(values.transpose(1, 2, 0), features)
        return outputs[:, :, 0] if n_groups == 1 else outputs

    def _values(self, features: Rows, members: range) -> NDArray[np.float64]:
        """Return what the trees of some members add to the margin, by group and member, shape (n_trees, n_rows)."""
        groups = range(0, self.forest.n_trees, self.n_members)
        return self.forest.reader.values(features, [first + own for first in groups for own in members])

    def _margins(self, values: NDArray[np.float64], features: Rows) -> NDArray[np.float64]:
        """Return margins of members as if their trees were the whole booster, shape (n_members, n_rows, n_groups)."""
        values *= self.forest.n_parallel
        values += self.forest.base_margin if features.base_margin is None else features.base_margin
        return values

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the members' outputs and which count; for three labels or more, out-of-bag trees form members."""
        # Trees of different classes are drawn independently, so any of them form a member: for each row, the out-of-bag
        # trees of all classes are combined in order, as many as the class with the fewest has.
        if bags is None or self.forest.n_groups == 1:
            return super().block(features, bags, rows)
        values, is_oob = self._values(features, range(self.n_members)), ~bags.in_bag(rows)
        shape = (self.forest.n_groups, self.n_members, -1)
        outputs, counted = form_members(values.reshape(shape), is_oob.reshape(shape))
        return self._margins(outputs, features), counted

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each tree, in the booster's order, proved by the sums in leaves of trees."""
        # Bags of trees for several columns of y are proved without y.
        if y is not None and self.info.n_outputs > 1 and np.ndim(y) > 1:
            y = None
        return proved_bags(self.forest, features, self._values_of(y, features))

    def _values_of(self, y: ArrayLike | None, features: Rows) -> NDArray[np.float64] | None:
        target = training_target(y, self.classes, features.shape[0])
        return None if target is None else target.astype(np.float64)

    def with_training_weight(self, features: Rows, weight: NDArray[np.float64]) -> Rows:
        """Return rows with the weights that the sums in the leaves were computed with."""
        return features.with_weight(weight)

    def verify_rows(self, features: Rows, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth, leaves and split values of the trees."""
        if are_confirmed(self.forest, features, self._values_of(y, features)):
            return "training"
        is_shown, would_show = compare_split_values(features.table, self.forest.splits(), np.float32)
        return judge_origin(is_shown, self._leaf_counts(features), features.shape[0], would_show)

    def column_splits(self, features: Rows) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features.table, self.forest.splits()

    def _leaf_counts(self, features: Rows) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each tree, the numbers of training rows (1 if weighted) and of given rows in its leaves."""
        try:
            hessians = unit_hessians(self.forest)
        except BagError:
            return
        one = np.concatenate([hessians.of_group(hessians.start, group) for group in range(self.forest.n_groups)])
        covers = [self.forest.leaf_covers(tree) / one[group] for tree, group in enumerate(self.forest.group)]
        found = []
        for start in range(0, self.forest.n_trees, TREES_TOGETHER):
            trees = range(start, min(start + TREES_TOGETHER, self.forest.n_trees))
            for tree, leaves in zip(trees, self.forest.reader.leaves(features, trees), strict=True):
                found.append(np.bincount(leaves, minlength=covers[tree].size))
                if not found[-1].all():
                    # Whatever the weights, fresh rows.
                    yield np.ones_like(found[-1]), found[-1]
                    return
        # With weights, sums are not counts, so that fewer rows than a sum do not show fresh rows.
        are_counts = all(
            np.abs(own - np.round(own)).max() <= WHOLE * own.max() and bool((reached >= np.round(own)).all())
            for own, reached in zip(covers, found, strict=True)
        )
        for own, reached in zip(covers, found, strict=True):
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

    def bags_by_position(self, n_rows: int) -> Callable[[IntArray, NDArray[Any]], Bags]:
        """Return a function that draws the bags of some rows from the booster's seed."""
        return bags_by_position(self.forest, n_rows)

    def truncated(self, size: int) -> Any:
        """Return a booster, or scikit-learn interface, of the first `size` parallel trees of every class."""
        # Leaf values are scaled by `n_members` / `size`, in XGBoost's float32. Training parameters stay, so that bags
        # can still be redrawn; of several classes, the booster's attributes state how many trees were grown.
        self._check_rounds()
        return truncated_trees(self.model, self.forest, size)

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities for mean margins, shape (n_rows, n_labels); mean values are returned unchanged."""
        if self.classes is None:
            return mean_output
        return np.asarray(softmax(mean_output, axis=1))

    def check_form(self) -> None:
        """Raise UnsupportedModelError for several rounds, and for objectives that no error curve is known for."""
        self._check_rounds()
        forest = self.forest
        if forest.n_outputs > 1:
            raise UnsupportedModelError(several_targets(type(self.model).__name__, forest.n_outputs))
        if forest.objective in (*_TWO_LABELS, *SOFTMAX):
            return
        if forest.objective not in _VALUES:
            raise UnsupportedModelError(
                f"Objective {forest.objective!r} ranks rows, or transforms the trees' mean score by a link such as the "
                "exponential, and no error curve is known for either. Train with 'reg:squarederror', 'binary:logistic' "
                "or 'multi:softprob'. ens_plugin.in_bag returns the bags of some further objectives."
            )
        if forest.n_groups > 1:
            raise UnsupportedModelError(
                f"This {type(self.model).__name__} predicts {forest.n_groups} quantiles; ens_plugin covers one. Train "
                "one model for each quantile_alpha."
            )

    def _check_rounds(self) -> None:
        forest = self.forest
        if forest.n_rounds > 1:
            raise _several_rounds(forest.n_rounds, forest.n_trees // (forest.n_rounds * forest.n_groups))


def _several_rounds(n_rounds: int, n_parallel: int) -> UnsupportedModelError:
    """Return the error for a booster of several rounds, with the number of parallel trees in each."""
    of_each = f" of {n_parallel} parallel trees" if n_parallel > 1 else ""
    return UnsupportedModelError(
        f"This booster was trained in {n_rounds} rounds{of_each}: the trees of each round correct those of the rounds "
        "before, so no error curve over sizes describes them, none can be left out, and a row that is out of bag for a "
        "tree of the last round trained the rounds before. Train one round (num_boost_round=1, or n_estimators=1) with "
        "num_parallel_tree=100 or more, subsample below 1 and learning_rate=1. ens_plugin.in_bag returns the bags of "
        "any number of rounds."
    )


def _booster(model: Any) -> Any:
    try:
        return model.get_booster()
    except SklearnNotFittedError as error:
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.") from error
