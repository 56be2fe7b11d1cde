"""Adapters of the forests of scikit-learn, of isolation forests and of patched ones; their trees and damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy, deepcopy
from functools import cached_property, lru_cache, partial
from numbers import Integral
from threading import local
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import IsolationForest

# sklearn.ensemble has other classes under these names once scikit-learn-intelex has patched it.
from sklearn.ensemble._forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from ens_plugin.adapters.contract import (
    DistributedBags,
    EnsembleAdapter,
    EnsembleInfo,
    OutputKind,
    ProofStatistics,
    draw_bags,
    merge_sums,
    outputs_by_member,
    refuse_other_candidates,
)
from ens_plugin.adapters.members import (
    DrawCounts,
    bag_doubts,
    call_model,
    checked_numbers,
    code_dtype,
    counts_of_rows,
    first_installed,
    parts,
    several_outputs,
    shortened,
    unequal_member_doubts,
)
from ens_plugin.adapters.sklearn.bags import (
    BagCounts,
    check_first_splits,
    check_growth,
    check_growth_of_all,
    drawn_numbers,
    first_splits,
    growth_sums,
    judge_first_splits,
    judge_growth,
    leaf_counts,
    refuse_other_numbers,
    seeded_bags,
)
from ens_plugin.adapters.sklearn.known_rows import (
    are_outputs_of_known_rows,
    are_shuffled_rows,
    draws_by_leaves,
    hold_node_values,
    show_node_values,
)
from ens_plugin.adapters.sklearn.training import (
    DISTRIBUTIONS,
    TRAINING,
    check_fitted,
    check_learner,
    check_predictions,
    check_row_count,
    drawing_weight,
    draws_by_weight,
    known_class,
    left_out_chances,
    prepare_rows,
    probe_rows,
    redrawable,
    refuse_other_part,
    training_target,
)
from ens_plugin.adapters.tree_table import LEAF, LEAVES_THAT_TELL, damage_of_tree, splits_by_column
from ens_plugin.adapters.trees import RowOrigin, judge_origin
from ens_plugin.adapters.unwrap import JOINT_WEIGHTS
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.training_rows import LeafDraws
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

_OF_ALL_MEMBERS = ("oob_score_", "oob_decision_function_", "oob_prediction_")


def truncated_ensemble(model: Any, size: int, kept: dict[str, Any]) -> Any:
    """Return a copy of a fitted ensemble with its first `size` members.

    Out-of-bag results are those of all members, and are dropped unless all are kept.
    """
    part = copy(model)
    if size < len(model.estimators_):
        for name in _OF_ALL_MEMBERS:
            vars(part).pop(name, None)
    for name, value in {**kept, "n_estimators": size}.items():
        setattr(part, name, value)
    # Copied only now: the members left out may be many and large.
    return deepcopy(part)


TREES = (DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor)
_PREDICTING, _GROWING = ("predict", "predict_proba", "apply"), ("fit", "_fit", "_validate_X_predict")

# Trees whose thresholds are compared with the rows: those of all would be alike.
COMPARED_TREES = 20
NODES_AT_ONCE = 1024
# For fewer, an order takes longer to find than it saves.
MANY_ROWS, MANY_TREES = 1000, 20


def are_plain_trees(members: Iterable[Any]) -> bool:
    """Return whether all members predict what their leaves hold: trees of scikit-learn's own classes and methods."""
    return all(type(member) in TREES and vars(member).keys().isdisjoint(_PREDICTING) for member in members)


def grow_as_trees(members: Iterable[Any]) -> bool:
    """Return whether all members are trees, or of subclasses that take and route rows as these do.

    So the rows of their bags can be compared with their nodes, however they predict.
    """
    classes = {type(member) for member in members}
    return all(issubclass(cls, TREES) and _grows_as_its_parent(cls) for cls in classes)


def _grows_as_its_parent(cls: type) -> bool:
    parent = next(base for base in cls.__mro__ if base in TREES)
    return all(getattr(cls, name, None) is getattr(parent, name, None) for name in _GROWING)


def tree_output_kind(trees: Iterable[Any], classes: NDArray[Any]) -> OutputKind:
    """Return ``"labels"`` where one label has probability 1, to the bit, in every leaf, else ``"probabilities"``."""
    return "probabilities" if pure_labels(trees, len(classes)) is None else "labels"


def pure_labels(trees: Iterable[Any], n_labels: int) -> list[NDArray[np.unsignedinteger[Any]]] | None:
    """Return the label of each leaf, by node, if every leaf has one label of probability 1, to the bit, else None.

    Those of inner nodes are any labels.  None too if a tree was trained without rows of some label.
    """
    labels = []
    for tree in trees:
        nodes = tree.tree_
        value = nodes.value[:, 0, :]
        if value.shape[1] != n_labels:
            return None
        label, is_certain = _certain_labels(value)
        # With weights, probabilities of a mixed inner node may be rounded to 1 too.
        if not is_certain[nodes.children_left < 0].all():
            return None
        labels.append(label)
    return labels


def _certain_labels(value: NDArray[np.float64]) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.bool_]]:
    """Return a label for each node, the one of probability 1 if there is one, and whether there is one."""
    n_nodes, n_labels = value.shape
    if n_labels == 2:
        is_certain = value == 1.0
        return is_certain[:, 1].astype(code_dtype(2)), is_certain.any(axis=1)
    labels, certain = np.empty(n_nodes, code_dtype(n_labels)), np.empty(n_nodes, np.bool_)
    # Few nodes at a time, so that their values are read from memory once.
    for start in range(0, n_nodes, NODES_AT_ONCE):
        part = value[start : start + NODES_AT_ONCE]
        strongest = part.argmax(axis=1)
        labels[start : start + NODES_AT_ONCE] = strongest
        strongest += np.arange(0, part.size, n_labels)
        certain[start : start + NODES_AT_ONCE] = part.reshape(-1).take(strongest) == 1.0
    return labels, certain


def leaf_outputs(tree: Any, features: Any) -> NDArray[np.float64]:
    """Return the outputs of the leaves that rows reach: probabilities (n_rows, n_labels) or values (n_rows, 1)."""
    return np.asarray(tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0))


def leaf_labels(tree: Any, features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label codes of the leaves reached by the rows, where every leaf is pure; shape (n_rows,)."""
    value = tree.tree_.value[:, 0, :]
    return reached_labels(tree, value.argmax(axis=1).astype(code_dtype(value.shape[1])), features)


def reached_labels(tree: Any, labels: NDArray[Any], features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label codes of the leaves that rows reach, from those of all nodes; shape (n_rows,)."""
    return np.asarray(labels.take(tree.apply(features, check_input=False)))


def outputs_by_tree(
    trees: list[Any],
    read: Callable[[int, Any], NDArray[Any]],
    features: Any,
    wanted: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Return what :func:`~ens_plugin.adapters.contract.outputs_by_member` does, for many rows in less time.

    Trees get the rows in the order of the leaves of the first one: rows that are close to each other mostly take the
    same turns, which a processor then foretells.
    """
    if not isinstance(features, np.ndarray) or features.shape[0] < MANY_ROWS or len(trees) < MANY_TREES:
        return outputs_by_member(read, range(len(trees)), features, wanted)
    order = np.argsort(trees[0].apply(features, check_input=False))
    rows, own = order, features.take(order, axis=0)
    outputs: NDArray[Any] | None = None
    for place in range(len(trees)):
        if wanted is not None:
            rows = order.compress(wanted[place].take(order))
            own = features.take(rows, axis=0)
        values = read(place, own)
        if outputs is None:
            outputs = np.zeros((len(trees), features.shape[0], *values.shape[1:]), dtype=values.dtype)
        outputs[place, rows] = values
    assert outputs is not None
    return outputs


def tree_splits(
    trees: Sequence[Any], columns: Sequence[NDArray[np.integer[Any]] | None] | None = None
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield each column that trees split, with the thresholds of some of the trees."""
    parts = []
    for member in range(0, len(trees), max(len(trees) // COMPARED_TREES, 1)):
        nodes, own = trees[member].tree_, None if columns is None else columns[member]
        is_split = nodes.children_left >= 0
        feature = nodes.feature[is_split]
        parts.append((feature if own is None else own.take(feature), nodes.threshold[is_split]))
    column, threshold = (np.concatenate(own) for own in zip(*parts, strict=True))
    return splits_by_column(column, threshold)


def checked_members(n_members: int) -> list[int]:
    """Return the positions of the first, middle and last member, one of which shows rows changed by a warm start."""
    return sorted({0, n_members // 2, n_members - 1})


def growth_is_known(features: Any, model: Any = None) -> bool:
    """Return whether trees that were grown on these rows are certain to route them now as in training.

    Before scikit-learn 1.8 rows with NaN may have been counted in another leaf than ``apply`` finds
    (scikit-learn pull request 32351).

    Parameters
    ----------
    features : prepared rows
    model : fitted ensemble of scikit-learn, optional
        Shows whether the release that trained it, which may be an earlier one than that which loaded it, was before
        1.9.
    """
    release = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    is_recent = release >= (1, 8) and (model is None or draws_by_weight(model))
    return is_recent or not np.isnan(features.sum(dtype=np.float64))


def are_recognised(trees: list[Any], check: Callable[[], object]) -> bool:
    """Return whether `check` proves that rows are those the trees grew on: it passes, and not by chance."""
    if sum(tree.tree_.n_leaves - 1 for tree in trees) < LEAVES_THAT_TELL:
        return False
    try:
        check()
    except DataMismatchError:
        return False
    return True


class RecordedBags(DistributedBags):
    """Bags of a scikit-learn ensemble, drawn from its seeds once in each process, one bit per row and member.

    Three members' leaf counts, and the first split of each tree, are compared with those of the rows.
    """

    def __init__(
        self,
        model: Any,
        draw: Callable[[int], NDArray[np.integer[Any]]],
        draw_all: Callable[[], Bags],
        n_rows: int,
        trees: list[Any] | None,
        member_rows: Callable[[int, Any], Any],
        without_trees: BagProof,
    ) -> None:
        self._model, self._draw, self._draw_all, self._n_rows = model, draw, draw_all, n_rows
        self._n_members = len(model.estimators_)
        self._trees, self._member_rows, self._without_trees = trees, member_rows, without_trees

    @cached_property
    def _bags(self) -> Bags:
        return self._draw_all()

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions."""
        return Bags.from_mask(self._bags.at(rows))

    def sums(self, rows: NDArray[np.int64], features: Any, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return row counts by node of three trees, and of the first split of each; none where routing is uncertain."""
        if self._trees is None:
            return ProofStatistics()
        if not growth_is_known(features, self._model):
            return ProofStatistics({"unknown": np.ones(1)})
        parts = []
        for member in checked_members(self._n_members):
            own = np.flatnonzero(bags.member(member))
            draws = np.bincount(self._draw(member), minlength=self._n_rows)[rows[own]]
            sums = growth_sums(self._trees[member], self._member_rows(member, features[own]), target[own], draws)
            parts.append(sums.named(member))
        columns = getattr(self._model, "estimators_features_", None)
        splits = first_splits(self._trees, features.astype(np.float32, copy=False), BagCounts(bags), columns)
        return merge_sums([*parts, ProofStatistics({"first splits": splits})])

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing the counts and the target of all rows with those of the trees."""
        if self._trees is None:
            return self._without_trees
        if "unknown" in sums.added:
            return BagProof(target=False)
        are_proved = [
            judge_growth(
                self._trees[member],
                sums.of_tree(member),
                member,
                weights_are_known=draws_by_weight(self._model),
            )
            for member in checked_members(self._n_members)
        ]
        judge_first_splits(self._trees, sums.added["first splits"])
        return BagProof(target=all(are_proved))


def _root(tree: Any) -> bytes:
    nodes = tree.__getstate__()["nodes"]
    # The bytes after the last field have any content.
    last, offset = max(nodes.dtype.fields.values(), key=lambda field: field[1])[:2]
    return bytes(nodes[:1].tobytes()[: offset + last.itemsize])


_OF_THREAD = local()
# From this release on, forests draw rows by their weights.
DRAWS_BY_WEIGHT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)
# Returns the rows that a tree drew.
Draw = Callable[[int], NDArray[np.integer[Any]]]

_FORESTS = (RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor, ExtraTreesRegressor)


class SklearnForestAdapter(EnsembleAdapter):
    """Adapter of scikit-learn's RandomForest* and ExtraTrees*, with one output.

    Members output their leaf's label where every leaf is pure, else its probabilities;
    either way the mean is scikit-learn's own ``oob_decision_function_``, to the bit.
    """

    known: ClassVar[tuple[type, ...]] = _FORESTS

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomForest* or an ExtraTrees*, or of a subclass."""
        return known_class(model, cls.known) is not None

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees output labels where every leaf is pure."""
        model = self.model
        check_fitted(model)
        check_learner(model, self.known, TRAINING)
        if model.n_outputs_ > 1:
            raise UnsupportedModelError(several_outputs(type(model).__name__, model.n_outputs_))
        is_classifier = isinstance(model, ClassifierMixin)
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=model.classes_ if is_classifier else None,
            n_members=len(model.estimators_),
            aggregation="mean_proba" if is_classifier else "mean",
            output_kind=self._tree_output_kind() if is_classifier else "values",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=DISTRIBUTIONS,
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.model, X, np.float32)

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the forest predicts the mean of its trees."""
        check_predictions(self, features, self.known)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the trees for the prepared rows."""
        if not self._are_plain:
            return outputs_by_member(self._own_outputs, members or range(self.n_members), features, wanted)
        if members is None:
            return outputs_by_tree(self.model.estimators_, self._tree_outputs, features, wanted)
        return outputs_by_member(self._tree_outputs, members, features, wanted)

    @cached_property
    def _are_plain(self) -> bool:
        return are_plain_trees(self.model.estimators_)

    @cached_property
    def _grow_as_trees(self) -> bool:
        return grow_as_trees(self.model.estimators_)

    def _own_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return what a member of an unknown class predicts, called as the forest calls it."""
        own, shape = self.model.estimators_[member], (rows.shape[0],)
        if self.classes is None:
            return checked_numbers(call_model(partial(own.predict, check_input=False), rows, member), shape, member)
        found = call_model(partial(own.predict_proba, check_input=False), rows, member)
        return checked_numbers(found, (*shape, len(self.classes)), member)

    def _tree_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        tree = self.model.estimators_[member]
        if self._labels is not None:
            return reached_labels(tree, self._labels[member], rows)
        outputs = leaf_outputs(tree, rows)
        return outputs if self.output_kind == "probabilities" else outputs[:, 0]

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the trees' seeds, after checking all trees, three of them by all leaves."""
        self._check_bootstrap()
        self._check_trees()
        check_row_count(self.model, features.shape[0])
        target = training_target(y, self.classes, features.shape[0])
        # The rows of the trees that are checked are drawn once, and those of no others are kept.
        draw = lru_cache(len(checked_members(self.n_members)))(self._draw)
        refuse_other_numbers(self.model, self._drawn_numbers(), len(draw(0)))
        if not growth_is_known(features, self.model):
            return self._draw_all(features.shape[0], draw).with_proof(BagProof(target=False))
        proof = BagProof(target=self._check_rows(features, target, draw))
        bags = self._draw_all(features.shape[0], draw)
        check_growth_of_all(
            self.model.estimators_,
            features,
            BagCounts(bags),
            target,
            weights_are_known=draws_by_weight(self.model),
        )
        return bags.with_proof(proof)

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each tree drew each row, redrawn from the trees' seeds after the checks of :meth:`bags`."""
        self.bags(X, features, y)
        weight = drawing_weight(self.model)
        drawn = map(self._draw, range(self.n_members))
        return counts_of_rows(drawn, self.n_members, features.shape[0], "with_replacement", weight)

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are redrawn from the trees' seeds, for some rows at a time by position."""
        refuse_other_candidates(candidate)
        self._check_bootstrap()
        self._check_trees()
        check_row_count(self.model, n_rows)
        trees, draw_all = self.model.estimators_, partial(self._draw_all, n_rows, self._draw)
        return RecordedBags(self.model, self._draw, draw_all, n_rows, trees, lambda _, rows: rows, BagProof())

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each row's chance to be out of a bag, where scikit-learn 1.9 or later drew by weight, else None."""
        return left_out_chances(self.model, getattr(self.model, "_n_samples_bootstrap", None))

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added trees with other parameters, numbers of rows, or weights."""
        trees = self.model.estimators_
        if not self._grow_as_trees:
            return unequal_member_doubts(trees)
        return unequal_member_doubts(trees, rows=self._drawn_numbers()) or bag_doubts(_bag_means(trees))

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth of three trees and the errors and leaves of all."""
        if not self._grow_as_trees:
            return "unknown"
        n_rows = features.shape[0]
        target = training_target(y, self.classes, n_rows)
        trees = self.model.estimators_
        return judge_origin(
            self._grew_on(features, target)
            or (target is not None and are_shuffled_rows(self, features, target, self._draw, self.model._n_samples))
            or hold_node_values([(tree, features) for tree in trees]),
            (leaf_counts(tree, features, target) for tree in (trees if growth_is_known(features, self.model) else [])),
            n_rows,
            lambda: show_node_values([(tree, features) for tree in trees]),
        )

    def leaf_draws(self, features: Any) -> LeafDraws | None:
        """Return how often trees drew training rows and how many draws the leaves of rows hold; None without bags."""
        model = self.model
        if not self._grow_as_trees or self.classes is None or not model.bootstrap or model.monotonic_cst is not None:
            return None
        return draws_by_leaves(
            [(tree, features) for tree in model.estimators_], len(self.classes), self._draw, model._n_samples
        )

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.model.estimators_) if self._grow_as_trees else iter(())

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether trees are wrong on out-of-bag rows only, which shows that the rows are training rows."""
        return are_outputs_of_known_rows(self, outputs, target, self._draw, self.model._n_samples)

    def stored_oob_outputs(self) -> NDArray[np.float64] | None:
        """Return the mean out-of-bag outputs the forest stored when fitted with ``oob_score``, or None."""
        # A refit without oob_score keeps the outputs of the earlier fit.
        if not self.model.oob_score:
            return None
        return getattr(self.model, "oob_prediction_" if self.classes is None else "oob_decision_function_", None)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees, which predicts their mean."""
        rows = probe_rows(self.model.n_features_in_, dict(self.column_splits(None)[1]))
        self.check_members(rows)
        part = truncated_ensemble(self.model, size, {"estimators_": self.model.estimators_[:size]})
        refuse_other_part(self, lambda: type(self)(part).check_members(rows), size)
        return part

    def _tree_output_kind(self) -> OutputKind:
        return "probabilities" if self._labels is None else "labels"

    @cached_property
    def _labels(self) -> list[NDArray[np.unsignedinteger[Any]]] | None:
        """Return the label code of every node of each tree; None where a leaf is mixed, and for regression."""
        model = self.model
        if not isinstance(model, ClassifierMixin) or not self._are_plain:
            return None
        return pure_labels(model.estimators_, len(model.classes_))

    def _drawn_numbers(self) -> NDArray[np.float64] | None:
        # Weights of several outputs are products, which do not add up to the number of rows.
        has_products = getattr(self.model.estimators_[0], JOINT_WEIGHTS, False)
        return None if has_products or not self.model.bootstrap else drawn_numbers(self.model)

    def _check_bootstrap(self) -> None:
        if not self.model.bootstrap:
            raise BagError(
                f"This {type(self.model).__name__} was trained without bootstrap, each tree on every row, so no "
                'row is out of bag. Pass data="holdout" with rows the model was not trained on, or refit with '
                "bootstrap=True."
            )

    def _check_trees(self) -> None:
        if not self._grow_as_trees:
            # Of a damaged model, a member that cannot predict at all is the finding.
            predicting = "predict" if self.classes is None else "predict_proba"
            names = sorted({type(tree).__name__ for tree in self.model.estimators_ if getattr(tree, predicting)})
            raise BagError(
                f"The members of this {type(self.model).__name__} are of the class {', '.join(names)}, which is no "
                "tree of scikit-learn or replaces how it is trained, so it cannot be proved which rows they were "
                "trained on. "
                'Pass data="holdout" with rows the model was not trained on.'
            )

    def _grew_on(self, features: Any, target: NDArray[Any] | None) -> bool:
        if features.shape[0] != self.model._n_samples or not growth_is_known(features, self.model):
            return False
        trees = [self.model.estimators_[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self._check_rows(features, target, self._draw))

    def _check_rows(self, features: Any, target: NDArray[Any] | None, draw: Draw) -> bool:
        return all(
            [
                check_growth(
                    self.model.estimators_[member],
                    features,
                    draw(member),
                    target,
                    member,
                    weights_are_known=draws_by_weight(self.model),
                )
                for member in checked_members(self.n_members)
            ]
        )

    def _draw_all(self, n_rows: int, draw: Draw) -> Bags:
        seeds = [tree.random_state for tree in self.model.estimators_]
        return seeded_bags(draw, seeds, n_rows, checked_members(self.n_members))

    def _draw(self, member: int) -> NDArray[np.integer[Any]]:
        """Return the rows that one tree drew; for all trees at once they would take 4 bytes per row and tree."""
        one_tree, tree = copy(redrawable(self.model)), copy(self.model.estimators_[member])
        if isinstance(tree.random_state, Integral):
            tree.random_state = _seeded(int(tree.random_state))
        weight = one_tree._sample_weight
        if weight is not None and not DRAWS_BY_WEIGHT:
            # As the later release that trained the forest draws.
            share = weight / np.sum(weight)
            return np.asarray(tree.random_state.choice(weight.size, one_tree._n_samples_bootstrap, p=share))
        one_tree.estimators_ = [tree]
        return np.asarray(one_tree.estimators_samples_[0])


def _seeded(seed: int) -> np.random.RandomState:
    """Return this thread's generator, set to the state of a new one with the seed: fifty times as fast as a new one."""
    if not hasattr(_OF_THREAD, "generator"):
        _OF_THREAD.generator = np.random.RandomState()
    generator: np.random.RandomState = _OF_THREAD.generator
    generator.seed(seed)
    return generator


def _bag_means(trees: Sequence[Any]) -> FloatArray:
    """Return what the root of each tree holds: the shares of the labels in its bag, or the mean or median target."""
    return np.array([tree.tree_.value[0].ravel() for tree in trees], dtype=np.float64)


class OneApiForestAdapter(EnsembleAdapter):
    """Adapter of a forest that scikit-learn-intelex trained after ``patch_sklearn()``, for held-out rows.

    Its ``estimators_`` are copies of the trees of a model of oneDAL, by which it predicts.  That compares the rows with
    thresholds as float64, where scikit-learn's trees take float32, so the copies are read here as oneDAL reads its own.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest with a model of oneDAL; what scikit-learn itself trained has none."""
        return hasattr(model, "_onedal_estimator") and hasattr(type(model), "estimators_")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose bags are not known."""
        model = self.model
        check_fitted(model)
        if model.n_outputs_ > 1:
            raise UnsupportedModelError(several_outputs(type(model).__name__, model.n_outputs_))
        is_classifier = isinstance(model, ClassifierMixin)
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=model.classes_ if is_classifier else None,
            n_members=len(model.estimators_),
            aggregation="mean_proba" if is_classifier else "mean",
            output_kind="probabilities" if is_classifier else "values",
            bag_provenance="unknown",
            is_row_independent=True,
            distributions=(*first_installed("scikit-learn-intelex"), "scikit-learn"),
        )

    def prepare(self, X: Any) -> NDArray[Any]:
        """Return X as an array of float64, or of float32 where it is one: the types that oneDAL takes."""
        rows = prepare_rows(self.model, X, None)
        if not isinstance(rows, np.ndarray):
            raise InputError(
                "X is a sparse matrix, which scikit-learn-intelex leaves to the copies of its trees, and these read "
                "with another rounding. Pass X.toarray()."
            )
        try:
            return rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)
        except ValueError as error:
            raise InputError(f"X cannot be used ({error}); pass the rows as the model's predict takes them.") from error

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless oneDAL predicts the mean of the trees."""
        try:
            check_predictions(self, features, ())
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"This {type(self.model).__name__} was trained by scikit-learn-intelex, and the trees in its "
                "estimators_ do not predict what its model of oneDAL does. Train it after "
                f"sklearnex.unpatch_sklearn(), which makes it a forest of scikit-learn. What was found: {error}"
            ) from error

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the probabilities or values of the trees for the prepared rows."""
        return outputs_by_member(self._leaf_outputs, members or range(self.n_members), features, wanted)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError: oneDAL keeps no record of the rows that its trees drew."""
        raise BagError(
            "This forest was trained by scikit-learn-intelex, whose oneDAL keeps no record of the rows that its trees "
            "drew: train it after sklearnex.unpatch_sklearn(), and it is a forest of scikit-learn, whose rows are "
            'known. Pass data="holdout" with rows no member was trained on.'
        )

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: the model of oneDAL, by which the forest predicts, holds all trees."""
        raise UnsupportedModelError(
            f"This {type(self.model).__name__} was trained by scikit-learn-intelex and predicts by one model of "
            f"oneDAL, from which no tree can be removed. Train one with n_estimators={size}, or train it after "
            "sklearnex.unpatch_sklearn(), which makes it a forest of scikit-learn that can be cut."
        )

    def _leaf_outputs(self, member: int, rows: NDArray[Any]) -> NDArray[np.float64]:
        nodes = self.model.estimators_[member].tree_
        left, right, feature = nodes.children_left, nodes.children_right, nodes.feature
        # oneDAL compares in the type of the rows where it classifies, and as float64 where it does not.
        threshold = nodes.threshold.astype(rows.dtype if self.classes is not None else np.float64, copy=False)
        reached = np.zeros(len(rows), np.intp)
        moving = np.arange(len(rows)) if left[0] != LEAF else np.arange(0)
        while moving.size:
            node = reached[moving]
            goes_left = rows[moving, feature[node]] <= threshold[node]
            reached[moving] = node = np.where(goes_left, left[node], right[node])
            moving = moving[left[node] != LEAF]
        held = np.asarray(nodes.value[reached, 0, :], dtype=np.float64)
        return held if self.output_kind == "probabilities" else held[:, 0]


# The sum 1 + 1/2 + ... + 1/n is the logarithm of n plus this constant, for large n.
EULER = float(np.euler_gamma)


class IsolationForestAdapter(EnsembleAdapter):
    """Adapter of IsolationForest; y has 1 for inliers and -1 for outliers, as ``predict`` returns them.

    A tree's score of a row is the number of splits above its leaf, plus the expected number of further splits that
    would isolate each row of the leaf, minus the threshold of the forest's ``predict``.  The forest predicts an inlier
    where the mean score is positive, and ranks rows as the mean does (Liu et al. 2008, eq. 2).
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is an IsolationForest, or of a subclass."""
        return isinstance(model, IsolationForest)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of inliers by a mean score."""
        check_fitted(self.model)
        check_learner(self.model, (IsolationForest,))
        return EnsembleInfo(
            task="classification",
            classes=np.array([-1, 1]),
            n_members=len(self.model.estimators_),
            aggregation="mean_score",
            output_kind="scores",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=DISTRIBUTIONS,
        )

    def encode_target(self, y: NDArray[Any]) -> None:
        """Raise InputError for other labels than 1 and -1, which the forest, trained without labels, does not have."""
        if y.ndim == 1 and not set(np.unique(y.astype(str)).tolist()) <= {"1", "-1", "1.0", "-1.0"}:
            shown = shortened(np.unique(y.astype(str)).tolist())
            raise InputError(
                f"y holds {shown}, and an IsolationForest predicts 1 for inliers and -1 for outliers. Pass such "
                "labels: numpy.where(is_outlier, -1, 1)."
            )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.model, X, np.float32)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the trees' scores of inliers, shape (n_members, n_rows)."""
        return outputs_by_member(self._scores, members or range(self.n_members), features, wanted)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the stored seeds, after checking all trees, three of them by all leaves."""
        n_rows = features.shape[0]
        check_row_count(self.model, n_rows)
        if not self.model.bootstrap and self.model.max_samples_ >= n_rows:
            raise BagError(
                f"Every tree of this IsolationForest was trained on all {n_rows} rows, so no row is out of bag. Pass "
                'data="holdout" with rows the model was not trained on, or refit with a smaller max_samples.'
            )
        if len(self._samples) != self.n_members:
            raise BagError(
                f"This IsolationForest has {counted(self.n_members, 'tree')}, but scikit-learn kept the seeds of the "
                f"last {len(self._samples)} only, because trees were added with warm_start. Refit all trees in one "
                'call of fit, or pass data="holdout" with rows the model was not trained on.'
            )
        for member in checked_members(self.n_members):
            drawn = self._samples[member]
            check_growth(self.model.estimators_[member], self._columns(features, member), drawn, None, member)
        bags = draw_bags(self._samples.__getitem__, self.n_members, n_rows)
        if growth_is_known(features, self.model):
            columns = self.model.estimators_features_
            check_first_splits(self.model.estimators_, features, BagCounts(bags), columns)
        # The forest was trained without labels: there is no training target that y could differ from.
        return bags.with_proof(BagProof(target=True))

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added trees with other parameters."""
        trees, columns = self.model.estimators_, list(map(len, self.model.estimators_features_))
        return unequal_member_doubts(trees, rows=drawn_numbers(self.model), columns=columns)

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning that the threshold between labels is the forest's own."""
        sentence = (
            "The 0-1 error is that of the forest's own threshold (contamination), which was set from the scores of all "
            "its trees. For the order of the scores pass metric='roc_auc'."
        )
        return (finding("own-threshold", sentence),)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees, with the same threshold."""
        # The public estimators_samples_ of the copy draws the rows of its trees from _seeds, and has no setter.
        kept = {name: getattr(self.model, name)[:size] for name in ("estimators_", "estimators_features_", "_seeds")}
        for name in ("_decision_path_lengths", "_average_path_length_per_tree"):
            if hasattr(self.model, name):
                kept[name] = getattr(self.model, name)[:size]
        return truncated_ensemble(self.model, size, kept)

    @cached_property
    def _samples(self) -> list[NDArray[np.integer[Any]]]:
        return list(redrawable(self.model).estimators_samples_)

    @cached_property
    def _node_scores(self) -> list[NDArray[np.float64]]:
        # predict: an outlier where -2 ** (-mean / expected) is below the offset.
        threshold = -float(_expected_splits(np.array([self.model.max_samples_]))[0]) * np.log2(-self.model.offset_)
        return [_splits(tree.tree_) - threshold for tree in self.model.estimators_]

    def _scores(self, member: int, rows: Any) -> NDArray[np.float64]:
        leaves = self.model.estimators_[member].apply(self._columns(rows, member), check_input=False)
        return np.asarray(self._node_scores[member].take(leaves))

    def _columns(self, features: Any, member: int) -> Any:
        columns = self.model.estimators_features_[member]
        is_all = len(columns) == features.shape[1] and bool((columns == np.arange(len(columns))).all())
        return features if is_all else features[:, columns]


def _splits(tree: Any) -> NDArray[np.float64]:
    """Return for each node of a tree its depth, and the expected further splits that would isolate its rows."""
    depth = np.zeros(tree.node_count)
    # Nodes have larger numbers than their parents.
    for node in np.flatnonzero(tree.children_left != -1):
        depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1.0
    return depth + _expected_splits(tree.n_node_samples)


def _expected_splits(n_rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean depth of a random binary search tree over some numbers of rows (Liu et al. 2008, eq. 1)."""
    rows = np.asarray(n_rows, dtype=np.float64)
    large = np.maximum(rows, 3.0)
    value = 2.0 * (np.log(large - 1.0) + EULER) - 2.0 * (large - 1.0) / large
    return np.where(rows <= 1, 0.0, np.where(rows == 2, 1.0, value))


def find_damage(held: Any) -> str | None:
    """Return the damage that makes a tree, or an estimator that holds trees, unsafe to predict with.

    scikit-learn copies the nodes of a tree from a file without a check.
    """
    return _damage_of_tree(held) if _is_tree(held) else _damage_of_estimator(held)


def _is_tree(held: Any) -> bool:
    return type(held).__module__ == "sklearn.tree._tree" and hasattr(type(held), "children_left")


def _damage_of_tree(tree: Any) -> str | None:
    # The arrays below are views of memory for node_count nodes, which is therefore checked first.
    if not 1 <= tree.node_count <= tree.capacity:
        return f"a tree states {counted(tree.node_count, 'node')}, and holds {tree.capacity}"
    links = tree.children_left, tree.children_right, tree.feature
    damage = damage_of_tree(*links, tree.n_features, tree.threshold, tree.value)
    return None if damage is None else f"a tree {damage}"


def _damage_of_estimator(held: Any) -> str | None:
    """Return what is wrong with the number of features of an estimator: trees inside an ensemble do not check it."""
    attributes = getattr(held, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    n_features: Any = attributes.get("n_features_in_")
    tree: Any = attributes.get("tree_")
    if _is_tree(tree) and tree.n_features != n_features:
        return f"a tree of {counted(tree.n_features, 'feature')} is in an estimator of {n_features!r:.40}"
    members = attributes.get("estimators_")
    if n_features is None or members is None or "estimators_features_" in attributes:
        return None
    for member in parts(members):
        inner: Any = getattr(member, "tree_", None)
        if _is_tree(inner) and inner.n_features != n_features:
            return f"a tree of {counted(inner.n_features, 'feature')} is a member of an ensemble of {n_features!r:.40}"
    return None
