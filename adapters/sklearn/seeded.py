"""Ensembles whose members draw rows by stored seeds: outputs, bags with their proof, training rows, fewer members."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property
from itertools import islice
from numbers import Integral
from threading import local
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from ens_plugin.adapters.contract import (
    Aggregation,
    EnsembleAdapter,
    EnsembleInfo,
    OutputKind,
    draw_bags,
    outputs_by_member,
)
from ens_plugin.adapters.library import FitSite, Flavor, Library, fit_methods
from ens_plugin.adapters.members import (
    DrawCounts,
    DrawRule,
    code_dtype,
    counts_of_rows,
    several_outputs,
    unequal_member_doubts,
)
from ens_plugin.adapters.sklearn.bags import (
    check_growth,
    checked_members,
    leaf_counts,
    prove_members,
)
from ens_plugin.adapters.sklearn.known_rows import (
    CHECKED_TREES,
    are_left_out_rows,
    compare_node_values,
    draws_by_leaves,
    tree_splits,
)
from ens_plugin.adapters.sklearn.training import (
    LEARNING,
    RELEASE,
    TRAINING,
    check_fitted,
    check_learner,
    check_predictions,
    check_row_count,
    drawing_weight,
    draws_by_weight,
    prepare_rows,
    probe_rows,
    redrawable,
    refuse_other_part,
    training_target,
)
from ens_plugin.adapters.trees import LEAVES_THAT_TELL, RowOrigin, judge_origin
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.training_rows import LeafDraws
from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from ens_plugin.findings import Finding

TREES = (DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor)
_PREDICTING, _GROWING = ("predict", "predict_proba", "apply"), ("fit", "_fit", "_validate_X_predict")
# Results of all members, which fewer members do not have.
_OF_ALL_MEMBERS = ("oob_score_", "oob_decision_function_", "oob_prediction_")

_OF_THREAD = local()


def logged_options(flavors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which MLflow saves another model of scikit-learn as it saved one."""
    return {
        # In MLflow's default format, forests cannot be loaded again.
        "serialization_format": flavors["sklearn"].get("serialization_format", "cloudpickle"),
        "pyfunc_predict_fn": flavors["python_function"].get("predict_fn", "predict"),
    }


class SeededEnsemble(EnsembleAdapter):
    """Base class of adapters of ensembles built on scikit-learn, whose members' rows follow from stored seeds.

    A class states which ensembles it reads, defines :meth:`describe` with :meth:`info_of`, and :meth:`member_outputs`.
    It overrides how members draw rows and are compared with them where these differ from trees of scikit-learn that
    drew from all rows: :meth:`draw`, :meth:`member_rows`, :meth:`member_target`, :meth:`check_bags`,
    :meth:`check_member`.

    Attributes
    ----------
    known : tuple of class
        Classes of the ensembles that are read; their subclasses are, too.
    distributions : tuple of str
        Names of the installed distributions whose versions a report states.
    learning : tuple of str
        Methods that a subclass of the known classes may not replace: those of training, and those of predicting, unless
        predictions are compared with those of the members.
    by_member : tuple of str
        Attributes of the ensemble with an entry for each member.
    """

    known: ClassVar[tuple[type, ...]]
    distributions: ClassVar[tuple[str, ...]] = ("scikit-learn",)
    learning: ClassVar[tuple[str, ...]] = LEARNING
    by_member: ClassVar[tuple[str, ...]] = ("estimators_",)

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is of a class that this adapter reads, or of a subclass."""
        return isinstance(model, cls.known)

    @property
    def ensemble(self) -> Any:
        """Return the fitted ensemble: the model, or what it is made of."""
        return self.model

    @property
    def members(self) -> Sequence[Any]:
        """Return the fitted members."""
        members: Sequence[Any] = self.ensemble.estimators_
        return members

    @cached_property
    def trees(self) -> list[Any] | None:
        """Return the members where all are trees whose nodes show the rows that they were grown on, else None."""
        return list(self.members) if grow_as_trees(self.members) else None

    def check_learned(self) -> None:
        """Raise NotFittedError or UnsupportedModelError unless the ensemble is fitted, and learns as its class does."""
        check_fitted(self.model)
        check_learner(self.model, self.known, self.learning)

    def refuse_outputs(self, n_outputs: int) -> None:
        """Raise UnsupportedModelError for an ensemble of several outputs."""
        if n_outputs > 1:
            raise UnsupportedModelError(several_outputs(type(self.model).__name__, n_outputs))

    def info_of(
        self, aggregation: Aggregation, output_kind: OutputKind, classes: NDArray[Any] | None = None
    ) -> EnsembleInfo:
        """Return the properties of an ensemble of members that predict each row alone."""
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=len(self.members),
            aggregation=aggregation,
            output_kind=output_kind,
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=self.distributions,
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.ensemble, X, np.float32)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities, scores or values of the members for the prepared rows."""
        return outputs_by_member(self.member_outputs, members or range(self.n_members), features, wanted)

    @abstractmethod
    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return what one member outputs for some prepared rows."""

    def leaf_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the leaves that rows, as a tree takes them, reach."""
        tree = self.members[member]
        if self._labels is not None:
            return np.asarray(self._labels[member].take(tree.apply(rows, check_input=False)))
        outputs = leaf_outputs(tree, rows)
        return outputs if self.output_kind == "probabilities" else outputs[:, 0]

    @cached_property
    def _labels(self) -> list[NDArray[np.unsignedinteger[Any]]] | None:
        """Return the label code of every node of each tree; None where a leaf is mixed, and of other members."""
        classes = getattr(self.ensemble, "classes_", None)
        return pure_labels(self.members, len(classes)) if classes is not None and self.are_plain else None

    @cached_property
    def are_plain(self) -> bool:
        """Whether all members predict what their leaves hold: trees of scikit-learn's own classes and methods."""
        return all(type(own) in TREES and vars(own).keys().isdisjoint(_PREDICTING) for own in self.members)

    def member_rows(self, member: int, features: Any) -> Any:
        """Return prepared rows as a member takes them, with its columns."""
        columns = None if self.columns is None else self.columns[member]
        return features if columns is None else features[:, columns]

    @cached_property
    def columns(self) -> list[AnyIntArray | None] | None:
        """Return the columns that each member was trained on, None for all columns; None where all have all."""
        chosen = getattr(self.ensemble, "estimators_features_", None)
        every = np.arange(self.ensemble.n_features_in_)
        return None if chosen is None else [None if np.array_equal(own, every) else own for own in chosen]

    def member_target(self, member: int, target: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return the training target as a member was given it."""
        return target

    def draw(self, member: int) -> AnyIntArray:
        """Return the rows that one member drew; for all at once they would take 4 bytes per row and member."""
        # The public estimators_samples_ of an ensemble with one member draws this one's rows.
        one_member, seeds = copy(redrawable(self.ensemble)), getattr(self.ensemble, "_seeds", None)
        if seeds is not None:
            one_member._seeds = seeds[member : member + 1]
            return np.asarray(one_member.estimators_samples_[0])
        tree, weight = copy(self.members[member]), getattr(one_member, "_sample_weight", None)
        if isinstance(tree.random_state, Integral):
            tree.random_state = _seeded(int(tree.random_state))
        if weight is not None and RELEASE < (1, 9):
            # As the later release that trained the forest draws.
            share = weight / np.sum(weight)
            return np.asarray(tree.random_state.choice(weight.size, one_member._n_samples_bootstrap, p=share))
        one_member.estimators_ = [tree]
        return np.asarray(one_member.estimators_samples_[0])

    def target_of(self, y: ArrayLike | None, n_rows: int) -> Any:
        """Return the training target in the form in which members are compared with it."""
        return training_target(y, self.classes, n_rows)

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError or DataMismatchError unless bags of so many training rows can be drawn again."""
        if not self.are_redrawable:
            raise BagError(
                f"This {type(self.model).__name__} has {counted(self.n_members, 'member')}, but scikit-learn kept the "
                f"seeds of the last {len(self.ensemble._seeds)} only, because members were added with warm_start. "
                'Refit all members in one call of fit, or pass data="holdout" with rows the model was not trained on.'
            )
        check_row_count(self.ensemble, n_rows)

    def check_member(self, member: int, features: Any, target: Any) -> bool:
        """Raise DataMismatchError unless a member can have been trained on its bag; return whether y is proved."""
        given, drawn = self.grown_on(member, features.shape[0])
        if given is not None:
            features, target = features[given], None if target is None else target[given]
        return check_growth(
            self.members[member],
            self.member_rows(member, _as_trees_take(features)),
            drawn,
            self.member_target(member, target),
            member,
            weights_are_known=self.are_weights_known,
        )

    def grown_on(self, member: int, n_rows: int) -> tuple[AnyIntArray | None, AnyIntArray]:
        """Return the rows that a tree was given, None for all `n_rows`, and which of these it drew, repeated or not."""
        return None, self.draw(member)

    @property
    def are_weights_known(self) -> bool:
        """Whether rows that were drawn equally often, with the same label, count alike inside a tree."""
        return draws_by_weight(self.ensemble)

    def prove(self, features: Any, target: Any) -> BagProof:
        """Return what the comparison of some members with their bags proves; raise DataMismatchError where it fails."""
        if not growth_is_known(features, self.ensemble):
            return BagProof(target=False)
        return BagProof(target=prove_members(lambda own: self.check_member(own, features, target), self.n_members))

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, drawn again from the stored seeds, after comparing some members with them."""
        n_rows = features.shape[0]
        self.check_bags(n_rows)
        proof = self.prove(features, self.target_of(y, n_rows))
        return draw_bags(self.draw, self.n_members, n_rows).with_proof(proof)

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        columns = getattr(self.ensemble, "estimators_features_", None)
        return unequal_member_doubts(
            self.learners, rows=self.drawn_numbers(), columns=None if columns is None else list(map(len, columns))
        )

    def importances(self) -> NDArray[np.float64]:
        """Return the importances by impurity of trees of scikit-learn; refuse other members."""
        if not self.are_plain:
            return super().importances()
        found = np.zeros((self.n_members, self.ensemble.n_features_in_))
        for member, tree in enumerate(self.members):
            columns = None if self.columns is None else self.columns[member]
            found[member, slice(None) if columns is None else columns] = tree.feature_importances_
        return found

    @property
    def learners(self) -> Sequence[Any]:
        """Return the fitted estimators whose parameters are compared."""
        return self.members

    def drawn_numbers(self) -> FloatArray | None:
        """Return how many rows each member drew, repeats included; None where the members do not show it."""
        return None

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the members' growth, errors, thresholds and leaves."""
        target = self.target_of(y, features.shape[0])
        if self._grew_on(features, target) or self.are_shuffled(features, target):
            return "training"
        step = max(self.n_members // CHECKED_TREES, 1)
        is_shown, would_show = compare_node_values(list(islice(self.trees_with_rows(features, step), CHECKED_TREES)))
        return judge_origin(is_shown, self.leaf_counts(features, target), features.shape[0], would_show)

    def trees_with_rows(self, features: Any, step: int = 1) -> Iterator[tuple[Any, Any]]:
        """Yield trees, each with the rows as it takes them; none where members are no trees."""
        rows = _as_trees_take(features) if self.trees else features
        return ((self.members[own], self.member_rows(own, rows)) for own in range(0, len(self.trees or ()), step))

    def are_shuffled(self, features: Any, target: Any) -> bool:
        """Return whether rows are training rows in any order, because members are wrong about out-of-bag rows only."""
        return False

    def leaf_counts(self, features: Any, target: Any) -> Iterable[tuple[AnyIntArray, AnyIntArray]]:
        """Return numbers of training and given rows by leaf of each tree; none where the leaves do not count rows."""
        return ()

    def _grew_on(self, features: Any, target: Any) -> bool:
        """Return whether rows are the training rows in training order, and members agree with them not by chance."""
        is_possible = self.are_redrawable and self.has_trained_on(features.shape[0])
        if self.trees is None or not is_possible or not growth_is_known(features, self.ensemble):
            return False
        trees = [self.trees[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self.prove(features, target))

    def has_trained_on(self, n_rows: int) -> bool:
        """Return whether the ensemble may have been trained on so many rows."""
        return n_rows == getattr(self.ensemble, "_n_samples", None)

    @property
    def are_redrawable(self) -> bool:
        """Whether the rows of all members can be drawn again: a warm start of bagging keeps the last seeds only."""
        return len(getattr(self.ensemble, "_seeds", self.members)) == len(self.members)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, FloatArray]]]:
        """Return rows as a table, and the thresholds of the columns that members split, where they are trees."""
        return features, () if self.trees is None else tree_splits(self.trees, self.columns)

    def truncated(self, size: int) -> Any:
        """Return an ensemble of copies of the first `size` members, which predicts their mean."""
        rows = probe_rows(self.ensemble.n_features_in_, dict(self.column_splits(None)[1]))
        self.check_members(rows)
        part = truncated_ensemble(self.model, size, self.by_member)
        refuse_other_part(self, lambda: type(self)(part).check_members(rows), size)
        return part


class SklearnEnsemble(SeededEnsemble, Library):
    """Base class of the adapters of scikit-learn's own forests and bagging, with what only these offer."""

    library: ClassVar[str] = "sklearn"
    flavor: ClassVar[Flavor | None] = Flavor("sklearn", "mlflow.sklearn", "sk_model", logged_options)
    works_in_fork: ClassVar[bool] = True
    learning: ClassVar[tuple[str, ...]] = TRAINING

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles, of pipelines and of searches."""
        return fit_methods(*cls.known, GridSearchCV, RandomizedSearchCV, Pipeline)

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the ensemble predicts the mean, or the votes, of its members."""
        check_predictions(self, features, self.known)

    def left_out_chances(self) -> FloatArray | None:
        """Return each row's chance to be out of a bag, where scikit-learn 1.9 or later drew by weight, else None."""
        ensemble = self.ensemble
        weight = getattr(ensemble, "_sample_weight", None)
        # No public attribute keeps how many rows were drawn, which a forest and a bagging ensemble name differently.
        n_draws = getattr(ensemble, "_n_samples_bootstrap", getattr(ensemble, "_max_samples", None))
        if weight is None or n_draws is None or not ensemble.bootstrap:
            return None
        share = np.asarray(weight, dtype=np.float64) / np.sum(weight)
        # A row with all of the weight is in every bag, but for rounding.
        return np.asarray(np.exp(n_draws * np.log1p(-np.minimum(share, 1.0 - 1e-15))))

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, from its seed, after the checks of :meth:`bags`."""
        self.bags(X, features, y)
        rule: DrawRule = "with_replacement" if self.ensemble.bootstrap else "without_replacement"
        drawn = map(self.draw, range(self.n_members))
        return counts_of_rows(drawn, self.n_members, features.shape[0], rule, drawing_weight(self.ensemble))

    def bags_by_position(self, n_rows: int) -> Callable[[IntArray, NDArray[Any]], Bags]:
        """Return a function that returns the bags of some rows, drawn from the stored seeds."""
        self.check_bags(n_rows)
        return lambda rows, target: draw_bags(self.draw, self.n_members, n_rows).take(rows)

    def stored_oob_outputs(self) -> FloatArray | None:
        """Return the mean out-of-bag outputs the ensemble stored when fitted with ``oob_score``, or None."""
        # A refit without oob_score keeps the outputs of the earlier fit.
        if not self.ensemble.oob_score:
            return None
        return getattr(self.ensemble, "oob_prediction_" if self.classes is None else "oob_decision_function_", None)

    def are_shuffled(self, features: Any, target: Any) -> bool:
        """Return whether rows are training rows in any order, because members are wrong about out-of-bag rows only."""

        def outputs_of(rows: NDArray[np.intp]) -> Iterator[NDArray[Any]]:
            chosen = features[rows]
            return (self.outputs(chosen, range(own, own + 1))[0] for own in range(self.n_members))

        return target is not None and self._are_left_out(outputs_of, target)

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether members are wrong on out-of-bag rows only, which shows that the rows are training rows."""
        return self._are_left_out(lambda rows: (own[rows] for own in outputs), target)

    def _are_left_out(self, outputs_of: Callable[[Any], Iterable[NDArray[Any]]], target: NDArray[Any]) -> bool:
        return self.are_redrawable and are_left_out_rows(
            outputs_of, target, self.draw, self.ensemble._n_samples, self.n_members
        )

    def leaf_draws(self, features: Any) -> LeafDraws | None:
        """Return how often trees drew training rows and how many draws the leaves of rows hold; None of other members.

        Members such as nearest neighbours are also right about fresh rows beside those that they drew.
        """
        if self.classes is None or self.trees is None or not self.are_redrawable:
            return None
        drew_all = np.unique(self.draw(0)).size == self.ensemble._n_samples
        if drew_all or any(tree.monotonic_cst is not None for tree in self.trees):
            return None
        return draws_by_leaves(
            list(self.trees_with_rows(features)), len(self.classes), self.draw, self.ensemble._n_samples
        )

    def leaf_counts(self, features: Any, target: Any) -> Iterator[tuple[AnyIntArray, AnyIntArray]]:
        """Return numbers of training and given rows by leaf of each tree."""
        is_known = growth_is_known(features, self.ensemble)
        return (leaf_counts(tree, rows, target) for tree, rows in self.trees_with_rows(features) if is_known)


def truncated_ensemble(model: Any, size: int, by_member: Sequence[str] = ("estimators_",)) -> Any:
    """Return a copy of a fitted ensemble with its first `size` members, and their entries of some attributes."""
    # Out-of-bag results are those of all members, and are dropped unless all are kept.
    part, n_members = copy(model), len(model.estimators_)
    for name in _OF_ALL_MEMBERS if size < n_members else ():
        vars(part).pop(name, None)
    for name in [own for own in by_member if hasattr(model, own)]:
        setattr(part, name, getattr(model, name)[:size])
    if hasattr(model, "_seeds"):
        # The public estimators_samples_ of the copy draws rows from these, and has no setter.  After a warm start,
        # scikit-learn keeps the seeds of the last members only.
        part._seeds = model._seeds[: max(size - (n_members - len(model._seeds)), 0)]
    part.n_estimators = size
    # Copied only now: the members left out may be many and large.
    return deepcopy(part)


def are_recognised(trees: list[Any], check: Callable[[], object]) -> bool:
    """Return whether `check` proves that rows are those the trees grew on: it passes, and not by chance."""
    if sum(tree.tree_.n_leaves - 1 for tree in trees) < LEAVES_THAT_TELL:
        return False
    try:
        check()
    except DataMismatchError:
        return False
    return True


def grow_as_trees(members: Iterable[Any]) -> bool:
    """Return whether all members are trees, or of subclasses that take and route rows as these do."""
    # So the rows of their bags can be compared with their nodes, however they predict.
    classes = {type(member) for member in members}
    return all(issubclass(cls, TREES) and _grows_as_its_parent(cls) for cls in classes)


def _grows_as_its_parent(cls: type) -> bool:
    parent = next(base for base in cls.__mro__ if base in TREES)
    return all(getattr(cls, name, None) is getattr(parent, name, None) for name in _GROWING)


def pure_labels(trees: Iterable[Any], n_labels: int) -> list[NDArray[np.unsignedinteger[Any]]] | None:
    """Return the label of each leaf, by node, if every leaf has one label of probability 1, to the bit, else None."""
    # Those of inner nodes are any labels. None too if a tree was trained without rows of some label.
    labels = []
    for tree in trees:
        nodes = tree.tree_
        value, is_leaf = nodes.value[:, 0, :], nodes.children_left < 0
        # With weights, probabilities of a mixed inner node may be rounded to 1 too.
        if value.shape[1] != n_labels or np.count_nonzero(value[is_leaf] == 1.0) < np.count_nonzero(is_leaf):
            return None
        # A product with the codes takes a tenth of the time of argmax.
        labels.append((value @ np.arange(n_labels)).astype(code_dtype(n_labels)))
    return labels


def leaf_outputs(tree: Any, features: Any) -> NDArray[np.float64]:
    """Return the outputs of the leaves that rows reach: probabilities (n_rows, n_labels) or values (n_rows, 1)."""
    return np.asarray(tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0))


def growth_is_known(features: Any, model: Any = None) -> bool:
    """Return whether trees that were grown on these rows are certain to route them now as in training."""
    # Before scikit-learn 1.8 rows with NaN may have been counted in another leaf than `apply` finds (scikit-learn pull
    # request 32351). A model shows whether the release that trained it was before 1.9.
    is_recent = RELEASE >= (1, 8) and (model is None or draws_by_weight(model))
    return is_recent or not np.isnan(features.sum(dtype=np.float64))


def _seeded(seed: int) -> np.random.RandomState:
    """Return this thread's generator, set to the state of a new one with the seed: fifty times as fast as a new one."""
    if not hasattr(_OF_THREAD, "generator"):
        _OF_THREAD.generator = np.random.RandomState()
    generator: np.random.RandomState = _OF_THREAD.generator
    generator.seed(seed)
    return generator


def _as_trees_take(features: Any) -> Any:
    """Return rows as float32, the type that trees compare with their thresholds."""
    return features.astype(np.float32, copy=False)
