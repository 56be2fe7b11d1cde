"""Adapter of the forests of H2O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any, ClassVar

import h2o
import numpy as np
import pandas as pd
from h2o.estimators.random_forest import H2ORandomForestEstimator
from h2o.exceptions import H2OConnectionError, H2OError, H2OResponseError, H2OServerError
from h2o.tree import H2OTree
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, HeldOutOnly
from ens_plugin.adapters.members import reason_of, shortened, text_label_codes, trained_columns
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError, ModelLoadError, NotFittedError, UnsupportedModelError

__all__ = [
    "H2OForestAdapter",
    "leaf_values",
    "predictions_and_leaves",
    "trained_output",
]


def trained_output(model: Any) -> dict[str, Any]:
    """Return what H2O's server states about a trained model: its columns, their categories, its kind."""
    key = model.model_id
    try:
        with _server_needed():
            return dict(h2o.api(f"GET /3/Models/{key}")["models"][0]["output"])
    except H2OResponseError as error:
        raise NotFittedError(
            f"H2O's server holds no model {str(key)!r}. Train the {type(model).__name__}, or load it with "
            "h2o.load_model, on the server that this session is connected to."
        ) from error


def predictions_and_leaves(model: Any, table: Any, trained: dict[str, list[str] | None]) -> tuple[Any, Any]:
    """Return what a model predicts for rows, and the numbers of the leaves that they reach.

    Nothing that is created on the server stays there.
    """
    types = {name: "enum" for name, categories in trained.items() if categories is not None}
    kept: list[Any] = []
    with _server_needed(), redirect_stdout(StringIO()):  # H2O draws bars of progress
        try:
            kept.append(h2o.H2OFrame(table, column_types=types))
            _check_categories(kept[0], trained)
            kept.append(model.predict(kept[0]))
            kept.append(model.predict_leaf_node_assignment(kept[0], type="Node_ID"))
            return _as_table(kept[1]), _as_table(kept[2])
        except (DataMismatchError, H2OConnectionError, H2OServerError):
            raise
        except (H2OError, OSError, ValueError) as error:  # H2O raises OSError where a job fails
            raise InputError(f"H2O refuses X ({reason_of(error)}); pass the columns as in training.") from error
        finally:
            for frame in kept:
                h2o.remove(frame.frame_id)


def leaf_values(model: Any, tree: int, label: str | None) -> dict[int, float]:
    """Return the value of each leaf of a tree by the leaf's number."""
    with _server_needed():
        read = H2OTree(model, tree, label, plain_language_rules=False)
    # H2O stores values in single precision, and writes them in as few digits as single precision needs.
    values = np.array(read.predictions, dtype=np.float32).astype(np.float64)
    return {number: float(value) for number, value in zip(read.node_ids, values, strict=True)}


@contextmanager
def _server_needed() -> Iterator[None]:
    try:
        yield
    except (H2OConnectionError, H2OServerError) as error:
        raise ModelLoadError(
            f"H2O's server, which holds the model, cannot be reached or fails ({reason_of(error)}). Connect to it with "
            "h2o.connect(), or start one with h2o.init() and load the model with h2o.load_model."
        ) from error


def _as_table(frame: Any) -> Any:
    return pd.read_csv(StringIO(frame.get_frame_data()), float_precision="round_trip")


def _check_categories(frame: Any, trained: dict[str, list[str] | None]) -> None:
    for name, categories in trained.items():
        if categories is None:
            continue
        found = frame[name].levels()[0]
        if found and not set(found) & set(categories):
            raise DataMismatchError(
                f"No value of the column {name!r} is among the categories that the model was trained on: "
                f"{shortened(found)} instead of {shortened(categories)}. Pass the values of training."
            )


# Columns of the training table that are no features.
ROLES = ("response_column", "weights_column", "fold_column", "offset_column")
# The parameters with which predictions do not follow from the trees that H2O shows.
REFUSED = ("balance_classes", "binomial_double_trees")
TOLERANCE = 1e-6


class H2OForestAdapter(HeldOutOnly, EnsembleAdapter):
    """Adapter of H2ORandomForestEstimator for classification and regression, with the server that holds the model.

    The server finds the leaves that rows reach; the values of the leaves are read from it once, tree by tree.  Of two
    labels, H2O trains one tree in each round, for the first label.  Of more, it trains a tree for each label, and
    divides the means over the rounds by their sum.  A member is a round.
    """

    no_bags: ClassVar[str] = "H2O keeps no record of which rows the trees of a random forest were trained on."

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is an H2ORandomForestEstimator."""
        return isinstance(model, H2ORandomForestEstimator)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; the server must be connected."""
        output = trained_output(self.model)
        parameters = {name: entry["actual"] for name, entry in self.model.params.items()}
        _refuse_parameters(parameters)
        roles = [parameters[role]["column_name"] for role in ROLES if parameters.get(role)]
        categories = dict(zip(output["names"], output["domains"], strict=True))
        names = output["original_names"] or output["names"]
        # H2O itself makes the categories of a column that it replaced by others before the training.
        self._trained = {name: categories.get(name) for name in names if name not in roles}
        self._threshold = output["default_threshold"]
        self._leaves: dict[str, dict[int, float]] = {}
        labels = categories[parameters["response_column"]["column_name"]]
        n_members = int(self.model.ntrees_actual())
        if labels is None:
            return _info("regression", None, n_members, "mean", "values")
        if len(labels) == 2:
            return _info("classification", np.array(labels), n_members, "mean_proba", "probabilities")
        return _info("classification", np.array(labels), n_members, "mean_score", "scores")

    def prepare(self, X: Any) -> NDArray[np.float32]:
        """Return the value of the leaf that each row reaches in each tree, after comparing H2O's own predictions.

        Shape (n_rows, n_members, n_trees of a round), in single precision as H2O stores them.
        """
        own, leaves = predictions_and_leaves(self.model, trained_columns(X, list(self._trained)), self._trained)
        columns = [self._values(name, leaves) for name in self._trees()]
        values = np.stack(columns, axis=1).reshape(len(own), self.n_members, -1)
        self._check_values(values, own)
        return values

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the codes of labels that are integers or truth values, which H2O keeps as texts; None for others."""
        if self.classes is None or y.dtype.kind not in "iub":
            return None
        return text_label_codes(y, self.classes)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the values of a regression, the probabilities of two labels, or the trees' values for each of more."""
        chosen = members or range(self.n_members)
        values = np.swapaxes(features[:, chosen.start : chosen.stop], 0, 1).astype(np.float64)
        if self.output_kind == "values":
            return np.asarray(values[:, :, 0])
        return np.concatenate([values, 1.0 - values], axis=2) if self.output_kind == "probabilities" else values

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of more than two labels: H2O divides the means by their sum."""
        if self.output_kind != "scores":
            return mean_output
        total = mean_output.sum(axis=-1, keepdims=True)
        return np.asarray(np.divide(mean_output, total, out=np.zeros_like(mean_output), where=total > 0))

    def cautions(self, data: str) -> tuple[str, ...]:
        """Return a warning that H2O chooses between two labels by a threshold of its own; none for more labels."""
        if self.output_kind != "probabilities" or self.classes is None:
            return ()
        return (
            f"H2O predicts {self.classes[1]!s} where its probability is at least {self._threshold:.3g}, the threshold "
            "with the largest F1 score in training. The errors here are of the label with the larger probability.",
        )

    def portable(self) -> Any:
        """Raise UnsupportedModelError: the trees are on H2O's server."""
        raise UnsupportedModelError(
            f"The trees of this {type(self.model).__name__} are on H2O's server, so no other process can predict with "
            "them. Pass the held-out rows as a table to ens_plugin.analyze in the session that is connected to it."
        )

    def _trees(self) -> list[str]:
        """Return H2O's names of the trees, round by round."""
        rounds = [f"T{number}" for number in range(1, self.n_members + 1)]
        if self.classes is None:
            return rounds
        n_trees = 1 if self.output_kind == "probabilities" else len(self.classes)
        return [f"{tree}.C{label}" for tree in rounds for label in range(1, n_trees + 1)]

    def _values(self, name: str, leaves: Any) -> NDArray[np.float32]:
        if name not in leaves:  # of a label without training rows there are no trees
            return np.zeros(len(leaves), dtype=np.float32)
        if name not in self._leaves:
            number, _, label = name[1:].partition(".C")
            own_label = None if self.classes is None else str(self.classes[int(label) - 1])
            self._leaves[name] = leaf_values(self.model, int(number) - 1, own_label)
        return np.asarray(leaves[name].map(self._leaves[name]), dtype=np.float32)

    def _check_values(self, values: NDArray[np.float32], own: Any) -> None:
        expected = own["predict"] if self.classes is None else own.iloc[:, 1:]
        expected = expected.to_numpy(dtype=np.float64)
        found = self.inverse_link(self.outputs(values).mean(axis=0))
        limit = TOLERANCE * max(1.0, float(np.abs(expected).max()))
        n_wrong = int((~(np.abs(found - expected) <= limit)).reshape(len(own), -1).any(axis=1).sum())
        if n_wrong:
            raise UnsupportedModelError(
                f"H2O's own predictions of {n_wrong} of {counted(len(own), 'row')} are not the mean of the values that "
                "it shows for the trees. It shows no value of a tree without a split, so train the forest with a "
                "smaller min_rows or min_split_improvement. Where every tree has splits, please report this with the "
                "version of H2O."
            )


def _info(task: Any, classes: NDArray[Any] | None, n_members: int, aggregation: Any, output_kind: Any) -> EnsembleInfo:
    return EnsembleInfo(
        task=task,
        classes=classes,
        n_members=n_members,
        aggregation=aggregation,
        output_kind=output_kind,
        bag_provenance="unknown",
        is_row_independent=True,
        distributions=("h2o",),
    )


def _refuse_parameters(parameters: dict[str, Any]) -> None:
    for name in REFUSED:
        if parameters.get(name):
            raise UnsupportedModelError(
                f"This forest of H2O was trained with {name}=True, and its predictions do not follow from the trees "
                f"that H2O shows. Train it with {name}=False."
            )
