"""Requests to the H2O server that holds a model: its description, the leaves of rows, and the leaves' values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

import h2o
import numpy as np
import pandas as pd
from h2o.exceptions import H2OConnectionError, H2OError, H2OResponseError, H2OServerError
from h2o.tree import H2OTree

from ens_plugin.adapters.shared.foreign_calls import reason_of
from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.errors import DataMismatchError, InputError, ModelLoadError, NotFittedError

__all__ = ["leaf_values", "predictions_and_leaves", "trained_output"]


def trained_output(model: Any) -> dict[str, Any]:
    """Return what H2O's server states about a trained model: its columns, their categories, its kind.

    Raises
    ------
    NotFittedError
        If the model is not on the server.
    ModelLoadError
        If no server can be reached.
    """
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

    Parameters
    ----------
    model : H2ORandomForestEstimator
    table : DataFrame, shape (n_rows, n_features)
    trained : dict of str to list of str or None
        By column of `table`, the categories of training; None for numbers and times.

    Returns
    -------
    predictions : DataFrame, shape (n_rows, 1 + n_labels) or (n_rows, 1)
        As H2O returns them.
    leaves : DataFrame of int, shape (n_rows, n_trees)
        By column ``"T3.C1"``, or ``"T3"`` for regression, the number of the leaf of the third tree.

    Raises
    ------
    DataMismatchError
        If no value of a column is among its categories.
    InputError
        If H2O refuses the rows.
    ModelLoadError
        If no server can be reached.
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
    """Return the value of each leaf of a tree by the leaf's number.

    Parameters
    ----------
    model : H2ORandomForestEstimator
    tree : int
        From 0.
    label : str or None
        The label whose tree it is; None where each round has a single tree.

    Raises
    ------
    ModelLoadError
        If no server can be reached.
    """
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
