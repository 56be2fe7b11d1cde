"""The proof of a model: what it and each of its members predict for a few rows, by which a copy is recognised."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import as_pandas
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap import native_model, output_count, output_ensemble, unwrap
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.validation import CELLS_AT_ONCE, FloatArray, IntArray, one_line
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.report.result import ModelProof

# Rows on which the members disagree most tell two seeds apart. As many others, drawn at random, tell a wrapper that
# changes what the members agree on.
DISPUTED_ROWS = OTHER_ROWS = 32
# Outputs of members among which those are searched: of 100 members with two labels those of 2000 rows.
SEARCHED_OUTPUTS = 400_000
# Predictions are written with so many digits: threads add members in any order, which changes the last ones.
DIGITS = 9
# A stored copy predicts the same to its library's rounding: this share of the spread over the rows, or the digits.
LARGEST_DIFFERENCE, ROUNDING = 1e-5, 2.0 * 10.0 ** (1 - DIGITS)


def proof_positions(sample: Sample) -> IntArray:
    """Return which sampled rows prove a model, in order."""
    return np.unique(sample.rows[_chosen(sample.block.outputs, sample.block.counted)])


def _chosen(outputs: NDArray[Any], counted: NDArray[np.bool_]) -> IntArray:
    """Return the rows on which the members that count disagree most, and others."""
    n_searched = min(max(SEARCHED_OUTPUTS // max(outputs[:, 0].size, 1), DISPUTED_ROWS), outputs.shape[1])
    searched = spread_rows(outputs.shape[1], n_searched)
    spread = _spread(outputs[:, searched], counted[:, searched])
    disputed = np.argsort(-spread, kind="stable")[:DISPUTED_ROWS]
    others = np.random.default_rng(0).permutation(searched.size)[:OTHER_ROWS]
    return np.asarray(searched[np.union1d(disputed, others)])


def _spread(outputs: NDArray[Any], counted: NDArray[np.bool_]) -> FloatArray:
    """Return the variance over the members that count of a weighted sum of each row's outputs, shape (n_rows,)."""
    if outputs.dtype.kind in "iu":
        # Codes of labels have no order, so each label has a random number.
        value = np.random.default_rng(0).standard_normal(int(outputs.max(initial=0)) + 1)[outputs]
    else:
        value = outputs.reshape(*outputs.shape[:2], -1) @ _weights(int(np.prod(outputs.shape[2:])))
    n_members = np.maximum(counted.sum(axis=0), 1)
    mean = np.where(counted, value, 0.0).sum(axis=0) / n_members
    return np.asarray(np.where(counted, (value - mean) ** 2, 0.0).sum(axis=0) / n_members)


def prove_model(model: Any, X: Any, positions: IntArray, adapter: EnsembleAdapter | None = None) -> ModelProof | None:
    """Return the proof of a model by some rows of X, as they were passed; None of what cannot predict them itself."""
    # An adapter that was made of the ensemble before spares reading its trees once more.
    if X is None or not hasattr(native_model(model), "predict"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = take_rows(X, positions)
            labels, outputs = _predicted(model, rows)
            members = member_sums(model, rows, adapter)
    except Exception:  # a user's model may raise anything, and its members are analysed all the same
        return None
    return ModelProof(tuple(map(int, positions)), labels, _rounded(outputs), _rounded(members), rows)


def prove_by_rows(model: Any, X: Any) -> ModelProof | None:
    """Return the proof of a model by those of some rows on which all its members disagree most, and others."""
    ensemble, rows = unwrap(model, X, are_fresh=True)
    adapter = find_adapter(ensemble)
    outputs = adapter.outputs(adapter.prepare(rows))
    return prove_model(model, X, _chosen(outputs, np.ones(outputs.shape[:2], dtype=bool)), adapter)


def take_rows(X: Any, positions: Sequence[int] | IntArray) -> Any:
    """Return rows of X at some positions, in the form in which X came; those of other data frames as pandas."""
    rows, positions = as_pandas(X), np.asarray(positions, dtype=np.intp)
    if hasattr(rows, "iloc"):
        return rows.iloc[positions]
    if hasattr(rows, "tocsr"):
        return rows.tocsr()[positions]
    if hasattr(rows, "shape"):
        return rows[positions]
    # XGBoost's matrices have no index.
    return rows.slice(positions) if hasattr(rows, "slice") else [rows[place] for place in positions]


def _predicted(model: Any, rows: Any) -> tuple[tuple[str, ...], FloatArray]:
    """Return the labels that a whole model predicts, as text, and a weighted sum of each row's other predictions."""
    own = native_model(model)
    library = find_library(own)
    found = np.asarray(library.predict(own, rows))
    is_value = found.dtype.kind == "f"
    tables = [found] if is_value else []
    if hasattr(own, "predict_proba"):
        probabilities = library.predict_proba(own, rows)
        # Models of several outputs return a list, with an array for each.
        tables += probabilities if isinstance(probabilities, list) else [probabilities]
    labels = () if is_value else tuple(map(str, found.reshape(-1).tolist()))
    if not tables:
        return labels, np.zeros(0)
    columns = np.hstack([np.asarray(table, dtype=np.float64).reshape(len(table), -1) for table in tables])
    return labels, columns @ _weights(columns.shape[1])


def member_sums(model: Any, X: Any, adapter: EnsembleAdapter | None = None) -> FloatArray:
    """Return for each member a random weighted sum of all that it predicts for some rows, shape (n_members,)."""
    # Two members that differ for any row have other sums. Of several outputs, the members of each come one after the
    # other.
    ensemble, rows = unwrap(model, X, are_fresh=True)
    n_outputs = output_count(ensemble)
    if n_outputs > 1:
        return np.concatenate([member_sums(output_ensemble(ensemble, output), rows) for output in range(n_outputs)])
    adapter = adapter or find_adapter(ensemble)
    features = adapter.prepare(rows)
    n_labels = 1 if adapter.classes is None else len(adapter.classes)
    # Few enough at once to keep memory small, and all of those that predict together.
    step = max(CELLS_AT_ONCE // (features.shape[0] * n_labels), adapter.info.member_batch_size)
    starts = range(0, adapter.n_members, step)
    parts = [adapter.outputs(features, range(start, min(start + step, adapter.n_members))) for start in starts]
    return np.concatenate([part.reshape(len(part), -1) @ _weights(int(part[0].size)) for part in parts])


def _weights(size: int) -> FloatArray:
    return np.random.default_rng(size).standard_normal(size)


def _rounded(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") for value in values.tolist())


def find_difference(proof: ModelProof, model: Any) -> str | None:
    """Return in what a stored model differs from the analysed one, as the end of a sentence; None in nothing."""
    try:
        labels, outputs = _predicted(model, proof.rows)
        members = member_sums(model, proof.rows)
    except EnsPluginError as error:
        return f"the rows of the analysis cannot be predicted with it ({error})"
    except Exception as error:  # a stored model may be of any kind
        return f"it does not predict the rows of the analysis ({type(error).__name__}: {one_line(str(error))})"
    if len(members) != len(proof.members):
        return f"it has {len(members)} members and not {len(proof.members)}"
    if labels != proof.labels or not _are_equal(outputs, proof.outputs):
        return "it predicts something else"
    if not _are_equal(members, proof.members):
        return "its members predict something else"
    return None


def _are_equal(found: FloatArray, expected: tuple[float, ...]) -> bool:
    known = np.array(expected, dtype=np.float64)
    if found.shape != known.shape:
        return False
    if not known.size:
        return True
    allowed = LARGEST_DIFFERENCE * float(np.nanstd(known)) + ROUNDING * np.abs(known)
    return bool(np.all((np.abs(found - known) <= allowed) | (np.isnan(found) & np.isnan(known)) | (found == known)))


def with_rows(proof: ModelProof | None, rows: Any) -> ModelProof:
    """Return the proof of a report that was read from JSON, with its rows taken from those that were analysed."""
    if proof is None:
        raise InputError("This report has no predictions to compare a stored model with. Analyse the model again.")
    try:
        return replace(proof, rows=take_rows(rows, proof.positions))
    except Exception as error:  # rows may be anything
        raise InputError(
            f"rows are not those of the analysis, which had more than {max(proof.positions)}: "
            f"{type(error).__name__}: {one_line(str(error))}. Pass the X of the analysis."
        ) from error
