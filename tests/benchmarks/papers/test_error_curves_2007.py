"""The 2007 benchmark: its smoke run, and its rows against plain computations."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.error_curves_2007 import (
    MEMBERS,
    PAPER,
    ROWS,
    VALIDATION_ROWS,
    estimates,
    plugged_in,
    predicted_bias,
)
from benchmarks.shared.forests import Record
from ens_plugin.papers.wrong_votes import binomial_curve


def record(seed: int = 0) -> Record:
    """Votes with known probabilities: 30 training rows, 1000 validation and 1000 test rows."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, size=2000)
    return {
        "wrong": np.packbits(rng.random((1000, 30)) < 0.3, axis=1),
        "seen": np.packbits(rng.random((1000, 30)) < 0.368, axis=1),
        "held_out_wrong": np.packbits(rng.random((1000, 2000)) < p, axis=1),
        "rows": np.array([30, 2000]),
    }


def test_estimates_are_of_the_first_members_on_the_right_rows() -> None:
    kept = record()
    found = estimates(kept, plugged_in)
    assert set(found) == set(ROWS)
    validation = np.unpackbits(kept["held_out_wrong"], axis=1)[:50, :VALIDATION_ROWS].sum(axis=0)
    assert found["VAL", 50] == pytest.approx(100 * binomial_curve(validation, np.full(1000, 50), [1000])[0])
    wrong, is_oob = (np.unpackbits(kept[name], axis=1, count=30).astype(bool)[:135] for name in ("wrong", "seen"))
    votes = (wrong & is_oob).sum(axis=0)
    assert found["OB", 135] == pytest.approx(100 * binomial_curve(votes, is_oob.sum(axis=0), [1000])[0])
    share = np.unpackbits(kept["held_out_wrong"], axis=1)[:, VALIDATION_ROWS:].mean(axis=0)
    assert found["test", 1000] == pytest.approx(100 * np.mean((np.sign(share - 0.5) + 1) / 2))


def test_predicted_bias_is_what_few_members_show() -> None:
    found = [estimates(record(seed), plugged_in) for seed in range(4)]
    excess = np.mean([one["VAL", 18] - one["VAL", 1000] for one in found])
    assert excess == pytest.approx(np.mean([predicted_bias(record(seed), 18) for seed in range(4)]), abs=0.5)
    assert excess > 1.0


def test_the_two_tables_have_the_same_rows_and_every_number_of_members() -> None:
    assert tuple(PAPER["ringnorm"]) == ROWS
    assert [members for kind, members in ROWS if kind == "VAL"] == list(MEMBERS)
    assert [round(0.368 * many) for many in MEMBERS[1:]] == list(MEMBERS[:-1])
