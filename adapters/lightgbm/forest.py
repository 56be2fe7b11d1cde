"""Adapter of LightGBM's random forests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from lightgbm import Booster, LGBMClassifier, LGBMModel, LGBMRegressor, __version__
from lightgbm.basic import LightGBMError
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.lightgbm.bags import BAGGING, DrawnRows
from ens_plugin.adapters.lightgbm.document import ModelText, parse_model, truncated_forest
from ens_plugin.adapters.lightgbm.leaf_values import PRINTED, Objective, read_objective
from ens_plugin.adapters.lightgbm.rows import prepare_table
from ens_plugin.adapters.members import DrawCounts, TableRows, counts_from_bags
from ens_plugin.adapters.sklearn.training import check_predictions, training_target
from ens_plugin.adapters.trees import COMPARED_ROWS, LEAVES_THAT_TELL, RowOrigin, compare_split_values, judge_origin
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import IntArray
from ens_plugin.errors import BagError, DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

# What a call of LightGBM takes for each member, and for each column of a row, in walks of a row through a tree.  A call
# for each member reads only the rows out of its bag, which saves more than half of the walks.
CALL, COLUMN = 3_600, 1 / 45
# Of 50 rows, so many members are predicted in twice the time of one.
QUERIED_TOGETHER = 16


class LightGBMForestAdapter(EnsembleAdapter):
    """Adapter of LightGBM's Booster, LGBMClassifier and LGBMRegressor in ``rf`` mode.

    A member is one iteration: a tree, or one tree for each label.  Members are averaged by their raw
    scores, as in LightGBM.  Bags are drawn again from the seed in the model, and used only when they fit the leaf
    counts of trees that are drawn at random.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a Booster or a scikit-learn interface of LightGBM."""
        return isinstance(model, (Booster, LGBMModel))

    def __init__(self, model: Any) -> None:
        self._booster = _fitted_booster(model)
        # One tree is enough to refuse a boosted model, which may have many.
        _check_mode(parse_model(self._booster.model_to_string(num_iteration=1)))
        # Without num_iteration, the text holds the iterations that predict uses: those up to the best one.
        text = self._booster.model_to_string()
        self._text: ModelText = parse_model(text)
        self._objective: Objective = read_objective(self._text.header.get("objective"))
        self._is_linear = "\nis_linear=1" in text
        self._n_compared = 0
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is one iteration."""
        classes = _labels_of(self.model, self._objective)
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=self._text.n_iterations,
            aggregation="mean" if classes is None else "mean_score",
            output_kind="values" if classes is None else "scores",
            bag_provenance="proved",
            is_row_independent=not self._is_linear,
            member_batch_size=QUERIED_TOGETHER,
            distributions=("lightgbm",),
        )

    def prepare(self, X: Any) -> TableRows:
        """Return X as a table, after comparing the members' mean with LightGBM's ``predict`` on the first rows."""
        rows = prepare_table(self._booster, X)
        if self._objective.is_covered and self._n_compared < COMPARED_ROWS and rows.shape[0]:
            self._compare_with_predict(rows)
            self._n_compared += rows.shape[0]
        return rows

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError if a subclass or a patch predicts something else than LightGBM's own class."""
        check_predictions(self, features, (Booster, LGBMClassifier, LGBMRegressor))

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the raw scores or values of the iterations for the prepared rows."""
        if not self._objective.is_covered:
            name = self._objective.name + (" with reg_sqrt" if self._objective.square_root else "")
            raise UnsupportedModelError(
                f"The objective of this forest is {name}, whose prediction is not the mean of its trees' values. The "
                "error curve is known for means of values and for labels only. Train with a regression objective "
                "without link, or with binary or multiclass; ens_plugin.in_bag works for this model as it is."
            )
        chosen = members or range(self.n_members)
        n_rows, n_columns = features.shape
        is_quick = isinstance(features.made, np.ndarray) and (
            n_rows * (self._text.trees_per_iteration - COLUMN * n_columns) > CALL
        )
        if self._is_linear or is_quick:
            return outputs_by_member(self._scores, chosen, features.made, wanted)
        return self._leaf_values(chosen, self._leaves(features, chosen))

    def _scores(self, member: int, numbers: Any) -> NDArray[np.float64]:
        return self._predict(numbers, raw_score=True, start_iteration=member, num_iteration=1)

    def _leaf_values(self, members: range, leaves: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of the leaves that rows reach, (n_members, n_rows) or (n_members, n_rows, n_labels)."""
        n_trees, by_tree = self._text.trees_per_iteration, np.empty(leaves.shape)
        for tree, own, reached in zip(self._text.trees[members.start * n_trees :], by_tree, leaves, strict=False):
            # Clipping never applies; without it, NumPy copies to check that all leaves are there.
            tree.floats("leaf_value").take(reached, out=own, mode="clip")
        return by_tree if n_trees == 1 else by_tree.reshape(len(members), n_trees, -1).transpose(0, 2, 1)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each iteration, redrawn from the seed and proved by leaf counts of trees."""
        n_rows, first_error = features.shape[0], None
        target = training_target(y, self.classes, n_rows)
        for candidate in count():
            try:
                drawn = self._drawn_rows(n_rows, candidate)
            except BagError as error:
                raise (first_error or error) from None
            bags = drawn.at(None, target)
            try:
                return bags.with_proof(drawn.proof(features, target, bags))
            except (BagError, DataMismatchError) as error:
                first_error = first_error or error
        raise AssertionError

    def bags_by_position(self, n_rows: int) -> Callable[[IntArray, NDArray[Any]], Bags]:
        """Return a function that draws the bags of some rows from the model's seed."""
        return self._drawn_rows(n_rows, 0).at

    def _drawn_rows(self, n_rows: int, candidate: int) -> DrawnRows:
        return DrawnRows(self._text, self._objective, n_rows, candidate, self._leaves)

    def verify_rows(self, features: TableRows, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the leaves they fill and the values that trees split at."""
        try:
            self.bags(None, features, y)
            return "training"
        except (BagError, DataMismatchError):
            if self._fill_every_leaf(features):
                return "training"
        is_shown, would_show = compare_split_values(features.table, self._text.splits(), np.float64)
        # LightGBM takes thresholds from all rows of training: if all trees share a bag, its other rows are held out.
        has_bags = self._trees_in_turn() < self.n_members
        return judge_origin(is_shown and has_bags, self._leaf_counts(features), features.shape[0], would_show)

    def _fill_every_leaf(self, features: TableRows) -> bool:
        """Return whether all rows fill every leaf as at training: training rows of a forest without bagging do."""
        n_extra, trees = 0, self._text.trees
        if any(tree.n_leaves > 1 and tree.leaf_counts.sum() != features.shape[0] for tree in trees):
            return False
        for counts, found in self._leaf_counts(features):
            if not np.array_equal(counts, found):
                return False
            n_extra += counts.size - 1
        return n_extra >= LEAVES_THAT_TELL

    def _leaf_counts(self, features: TableRows) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the numbers of training and given rows in the leaves of each tree that has a split."""
        for member in range(self.n_members):
            leaves = self._leaves(features, range(member, member + 1))
            for tree, reached in zip(self._text.trees_of(member), leaves, strict=True):
                counts = self._text.trees[tree].leaf_counts
                if counts.size:
                    yield counts, np.bincount(reached, minlength=counts.size)

    def column_splits(self, features: TableRows) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features.table, self._text.splits()

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, 0 or 1 times, with the proof of :meth:`bags`."""
        return counts_from_bags(self.bags(X, features, y), "without_replacement")

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning of trees that share their bag."""
        together = self._trees_in_turn()
        if together == 1:
            return ()
        sentence = (
            f"Each {together} trees in turn share a bag (bagging_freq={together}) and resemble each other. The "
            "curve takes them for independent: it is too flat, and the recommended size too small, by a factor of "
            f"up to {together}. Train with bagging_freq=1."
        )
        return (finding("shared-bags", sentence, n_trees=together),)

    def _trees_in_turn(self) -> int:
        """Return the number of consecutive trees that share a bag."""
        return min(int(self._text.number("bagging_freq", 1)), self.n_members)

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities for mean raw scores of shape (n_rows, n_labels), as ``predict`` does."""
        return self._objective.inverse_link(mean_output)

    def truncated(self, size: int) -> Any:
        """Return a forest of the first `size` iterations."""
        return truncated_forest(self.model, self._booster, size)

    def _compare_with_predict(self, rows: TableRows) -> None:
        """Raise UnsupportedModelError unless the members' mean is what LightGBM predicts for some rows."""
        some = rows[spread_rows(rows.shape[0], COMPARED_ROWS)]
        outputs = self.outputs(some)
        if self._objective.name == "binary":
            outputs = both_scores(outputs)
        ours = self.inverse_link(outputs.mean(axis=0))
        ours = ours[:, 1] if self._objective.name == "binary" else ours
        own = self._predict(some.table)
        scale = float(np.abs(own).max())
        worst = float(np.abs(ours - own).max())
        if worst > PRINTED * scale:
            raise UnsupportedModelError(
                f"The mean over all members differs by {worst:.3g} from what LightGBM {__version__} predicts itself "
                f"(values up to {scale:.3g}), so the members' outputs are not known. Please report this with the "
                "model's parameters. Until then, pass outputs of your own as an ens_plugin.CustomEnsemble."
            )

    def _predict(self, numbers: Any, **options: Any) -> NDArray[Any]:
        try:
            return np.asarray(self._booster.predict(numbers, num_threads=effective_n_jobs(None), **options))
        except (LightGBMError, ValueError, TypeError) as error:
            raise InputError(
                f"LightGBM cannot predict these rows: {error}. Pass the columns that the model was trained on."
            ) from error

    def _leaves(self, features: TableRows, members: range) -> NDArray[Any]:
        """Return the leaf that each row reaches in the trees of some members, shape (n_trees, n_rows)."""
        chosen = {"start_iteration": members.start, "num_iteration": len(members)}
        return self._predict(features.made, pred_leaf=True, **chosen).reshape(features.shape[0], -1).T


def _fitted_booster(model: Any) -> Any:
    if isinstance(model, Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.")
    return model.booster_


def _check_mode(text: ModelText) -> None:
    """Raise UnsupportedModelError for a model that boosts, and NotFittedError for one without trees."""
    if not text.averages:
        raise UnsupportedModelError(
            "This LightGBM model sums its trees: each corrects those before it, so none of them predicts on its own. "
            f"ens_plugin covers random forests: train with boosting_type='rf', {BAGGING}."
        )
    if not text.trees:
        raise NotFittedError("This LightGBM model has no trees; train it first.")


def _labels_of(model: Any, objective: Objective) -> NDArray[Any] | None:
    if not isinstance(model, LGBMClassifier):
        return np.arange(objective.n_labels) if objective.n_labels else None
    if len(model.classes_) != objective.n_labels:
        raise UnsupportedModelError(
            f"This {type(model).__name__} was trained with objective {objective.name}, which does not score each "
            f"label (of {len(model.classes_)}). Use objective='binary' or 'multiclass' and at least two labels."
        )
    return np.asarray(model.classes_)
