"""Margins of many labels, against the plain definition: every label of every member, one member after the other."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.tally import MarginTally, RowBlock, label_support, strongest_rival, tally_margins

FloatArray = NDArray[np.float64]


def random_block(kind: str, n_labels: int, n_members: int = 12, n_rows: int = 80) -> RowBlock:
    rng = np.random.default_rng(n_labels)
    is_oob = rng.random((n_members, n_rows)) < 0.5
    # Rows without members, and with a single one.
    is_oob[:, 0] = False
    is_oob[:, 1] = np.arange(n_members) == 3
    target = rng.integers(0, n_labels, n_rows)
    # A few labels have most of the votes, so that many rows are close.
    votes = rng.choice(n_labels, (n_members, n_rows), p=rng.dirichlet(np.full(n_labels, 0.2)))
    if kind == "votes":
        return RowBlock(votes.astype(np.min_scalar_type(n_labels)), is_oob, target, n_labels)
    indicators = np.eye(n_labels)[votes]
    if kind == "thirds":
        # Leaves of three rows: equal supports are frequent.
        return RowBlock(
            (indicators + 2.0 * np.eye(n_labels)[rng.permuted(votes, axis=0)]) / 3.0, is_oob, target, n_labels
        )
    return RowBlock(rng.normal(size=(n_members, n_rows, n_labels)) + indicators, is_oob, target, n_labels)


def plain_tally(block: RowBlock) -> MarginTally:
    """Return the tally as defined, by arrays of all members, rows and labels."""
    outputs = np.eye(block.n_labels)[block.outputs] if block.outputs.ndim == 2 else block.outputs
    counted = outputs * block.counted[:, :, None]
    rows, trials = np.arange(block.target.size), block.counted.sum(axis=0).astype(np.float64)
    rival = strongest_rival(counted.sum(axis=0), block.target)
    margin = outputs[:, rows, block.target] - outputs[:, rows, rival]
    mean = (margin * block.counted).sum(axis=0) / np.maximum(trials, 1.0)
    squares = (((margin - mean) * block.counted) ** 2).sum(axis=0)
    wrong = ((outputs.argmax(axis=2) != block.target) & block.counted).sum(axis=0)
    return MarginTally(trials, mean, np.sqrt(squares / np.maximum(trials - 1.0, 1.0)), wrong.astype(np.float64))


@pytest.mark.parametrize("n_labels", [3, 16, 17, 300])
@pytest.mark.parametrize("kind", ["votes", "thirds", "scores"])
def test_tally_is_the_plain_one(kind: str, n_labels: int) -> None:
    block = random_block(kind, n_labels)
    if kind == "thirds":
        # In sixteenths all sums are exact, so that ties are ties in whatever order they are added.
        block = RowBlock(np.round(16.0 * block.outputs) / 16.0, block.counted, block.target, n_labels)
    found, expected = tally_margins(block), plain_tally(block)
    for field in fields(found):
        np.testing.assert_allclose(
            getattr(found, field.name), getattr(expected, field.name), rtol=1e-12, atol=1e-12, err_msg=field.name
        )
    assert found.wrong_labels.any()


@pytest.mark.parametrize("n_labels", [4, 40])
def test_votes_are_probabilities_of_one(n_labels: int) -> None:
    votes = random_block("votes", n_labels)
    indicators = RowBlock(np.eye(n_labels)[votes.outputs], votes.counted, votes.target, n_labels)
    found, expected = tally_margins(votes), tally_margins(indicators)
    for field in fields(found):
        np.testing.assert_allclose(getattr(found, field.name), getattr(expected, field.name), rtol=0.0, atol=1e-14)
    for name in ("trials", "mean", "wrong_labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("kind", ["votes", "thirds"])
def test_outputs_that_do_not_count_change_nothing(kind: str) -> None:
    block = random_block(kind, 30)
    outputs = block.outputs.copy()
    outputs[~block.counted] = 7
    found, expected = tally_margins(RowBlock(outputs, block.counted, block.target, 30)), tally_margins(block)
    for field in fields(found):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))


def test_rows_are_tallied_alike_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    block = random_block("votes", 30)
    whole, support = tally_margins(block), label_support(block, block.counted)
    monkeypatch.setattr("ens_plugin.core.tally.CELLS_AT_ONCE", 200)
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(tally_margins(block), field.name), getattr(whole, field.name))
    np.testing.assert_array_equal(label_support(block, block.counted), support)
    expected = (np.eye(30)[block.outputs] * block.counted[:, :, None]).sum(axis=0)
    np.testing.assert_array_equal(support, expected)
