from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.tally import (
    RowBlock,
    Tally,
    both_scores,
    copy_rows,
    count_members,
    empty_tally,
    label_support,
    member_margins,
    select_rows,
    strongest_rival,
    sum_over_members,
    tally_labels,
    tally_leads,
    tally_values,
    wrong_support,
)

FloatArray = NDArray[np.float64]


def random_block(kind: str, n_labels: int, seed: int = 0, n_members: int = 7, n_rows: int = 9) -> RowBlock:
    rng = np.random.default_rng(seed)
    is_oob = rng.random((n_members, n_rows)) < 0.5
    if kind == "values":
        return RowBlock(rng.normal(size=(n_members, n_rows)), is_oob, rng.normal(size=n_rows), 0)
    target = rng.integers(0, n_labels, n_rows)
    if kind == "labels":
        return RowBlock(rng.integers(0, n_labels, (n_members, n_rows)).astype(np.uint8), is_oob, target, n_labels)
    return RowBlock(rng.dirichlet(np.ones(n_labels), (n_members, n_rows)), is_oob, target, n_labels)


def indicator(block: RowBlock, member: int, row: int) -> FloatArray:
    """Support of one member for each label of a row."""
    output = block.outputs[member, row]
    return np.eye(block.n_labels)[int(output)] if block.outputs.ndim == 2 else np.asarray(output)


def counted_members(block: RowBlock, row: int) -> list[int]:
    return np.flatnonzero(block.counted[:, row]).tolist()


def brute_rival(block: RowBlock, row: int, members: list[int]) -> int:
    support = sum((indicator(block, member, row) for member in members), np.zeros(block.n_labels)).copy()
    support[int(block.target[row])] = -1.0
    return int(np.argmax(support))


def brute_margin(block: RowBlock, member: int, row: int, rival: int) -> float:
    support = indicator(block, member, row)
    return float(support[int(block.target[row])] - support[rival])


def uneven_block(kind: str, n_labels: int, n_members: int = 12, n_rows: int = 80) -> RowBlock:
    """Rows of which many are close, since few labels have most of the votes, and some have one member or none."""
    rng = np.random.default_rng(n_labels)
    is_oob = rng.random((n_members, n_rows)) < 0.5
    is_oob[:, 0] = False
    is_oob[:, 1] = np.arange(n_members) == 3
    target = rng.integers(0, n_labels, n_rows)
    votes = rng.choice(n_labels, (n_members, n_rows), p=rng.dirichlet(np.full(n_labels, 0.2)))
    if kind == "votes":
        return RowBlock(votes.astype(np.min_scalar_type(n_labels)), is_oob, target, n_labels)
    indicators = np.eye(n_labels)[votes]
    if kind == "sixteenths":
        # Leaves of few rows: equal supports are frequent, and sums are exact in whatever order they are added.
        outputs = (5.0 * indicators + 11.0 * np.eye(n_labels)[rng.permuted(votes, axis=0)]) / 16.0
        return RowBlock(outputs, is_oob, target, n_labels)
    return RowBlock(rng.normal(size=(n_members, n_rows, n_labels)) + indicators, is_oob, target, n_labels)


@pytest.mark.parametrize("n_labels", [2, 3, 16, 17, 300])
@pytest.mark.parametrize("kind", ["votes", "sixteenths", "scores"])
def test_label_tally_row_by_row(kind: str, n_labels: int) -> None:
    block = uneven_block(kind, n_labels)
    tally = tally_labels(block)
    for row, target in enumerate(block.target.tolist()):
        supports = [indicator(block, member, row) for member in counted_members(block, row)]
        total = np.sum(supports, axis=0) if supports else np.zeros(n_labels)
        others = np.delete(total, target).max()
        assert tally.trials[row] == len(supports)
        assert tally.wrong_members[row] == sum(int(np.argmax(each)) != target for each in supports)
        assert tally.error[row] == (0.5 if total[target] == others else float(total[target] < others))
        assert tally.is_wrong[row] == (int(np.argmax(total)) != target)


@pytest.mark.parametrize("seed", range(5))
def test_one_score_of_two_labels_row_by_row(seed: int) -> None:
    """Few members, so that one may outweigh all others, and whole numbers, so that sums and scores may be 0."""
    rng = np.random.default_rng(seed)
    scores, is_oob, target = rng.integers(-3, 4, (4, 60)) * 1.0, rng.random((4, 60)) < 0.8, rng.integers(0, 2, 60)
    tally = tally_labels(RowBlock(both_scores(scores), is_oob, target, 2))
    for row in range(60):
        output = scores[is_oob[:, row], row]
        is_second = target[row] == 1
        ahead = output.sum() if is_second else -output.sum()
        assert tally.wrong_members[row] == np.count_nonzero((output > 0) != is_second)
        assert tally.error[row] == (1.0 - np.sign(ahead)) / 2.0
        assert tally.is_wrong[row] == ((output.sum() > 0) != is_second)


@pytest.mark.parametrize("n_labels", [2, 5])
@pytest.mark.parametrize("kind", ["votes", "sixteenths", "scores"])
def test_lead_tally_row_by_row(kind: str, n_labels: int) -> None:
    block = uneven_block(kind, n_labels)
    tally = tally_leads(block)
    for row in range(2, block.target.size):
        supports = np.array([indicator(block, member, row) for member in counted_members(block, row)])
        label = int(np.argmax(supports.sum(axis=0)))
        runner_up = max((other for other in range(n_labels) if other != label), key=lambda k: supports[:, k].sum())
        margins = supports[:, label] - supports[:, runner_up]
        assert (tally.label[row], tally.runner_up[row]) == (label, runner_up)
        assert tally.mean[row] == pytest.approx(margins.mean(), abs=1e-12)
        assert tally.sd[row] == pytest.approx(margins.std(), abs=1e-12)


def test_rows_are_tallied_alike_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    block = uneven_block("votes", 30)
    whole, support = tally_labels(block), label_support(block, block.counted)
    monkeypatch.setattr("ens_plugin.core.tally.CELLS_AT_ONCE", 200)
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(tally_labels(block), field.name), getattr(whole, field.name))
    np.testing.assert_array_equal(label_support(block, block.counted), support)
    expected = (np.eye(30)[block.outputs] * block.counted[:, :, None]).sum(axis=0)
    np.testing.assert_array_equal(support, expected)


def test_value_tally_row_by_row() -> None:
    block = random_block("values", 0)
    tally = tally_values(block)
    for row in range(block.target.size):
        values = block.outputs[block.counted[:, row], row]
        assert tally.trials[row] == values.size
        assert tally.mean[row] == pytest.approx(values.mean() if values.size else 0.0)
        assert tally.variance[row] == pytest.approx(values.var(ddof=1) if values.size > 1 else 0.0)
    np.testing.assert_array_equal(tally.target, block.target)


def test_variance_survives_a_large_offset() -> None:
    """Two passes, not a difference of squares: 1e9 + noise of 1 keeps its variance."""
    values = 1e9 + np.random.default_rng(0).normal(size=(50, 1))
    tally = tally_values(RowBlock(values, np.ones((50, 1), dtype=bool), np.zeros(1), 0))
    assert tally.variance[0] == pytest.approx(values.var(ddof=1), rel=1e-6)


def joined(parts: list[Tally]) -> Tally:
    """Return tallies of consecutive blocks as an analysis joins them."""
    whole, row = empty_tally(parts[0], sum(part.n_rows for part in parts)), 0
    for part in parts:
        copy_rows(part, whole, row)
        row += part.n_rows
    return whole


TALLIES: dict[str, Callable[[RowBlock], Tally]] = {
    "labels": tally_labels,
    "probabilities": tally_labels,
    "values": tally_values,
}


@given(st.sampled_from(sorted(TALLIES)), st.sampled_from([2, 3]), st.integers(1, 8), st.integers(0, 5))
def test_tallies_of_blocks_join_to_the_bit(kind: str, n_labels: int, cut: int, seed: int) -> None:
    tally_of, block = TALLIES[kind], random_block(kind, n_labels, seed)
    parts = [
        tally_of(RowBlock(block.outputs[:, rows], block.counted[:, rows], block.target[rows], block.n_labels))
        for rows in (slice(0, cut), slice(cut, None))
    ]
    whole, merged = tally_of(block), joined(parts)
    assert type(merged) is type(whole)
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(merged, field.name), getattr(whole, field.name))


def test_select_rows_keeps_every_column() -> None:
    tally = tally_labels(random_block("labels", 3))
    usable = np.arange(9) % 2 == 0
    chosen = select_rows(tally, usable)
    for field in fields(tally):
        np.testing.assert_array_equal(getattr(chosen, field.name), getattr(tally, field.name)[usable])


def test_outputs_that_do_not_count_are_never_read() -> None:
    for kind, n_labels in [("labels", 2), ("labels", 30), ("probabilities", 2), ("probabilities", 30), ("values", 0)]:
        block, tally_of = random_block(kind, n_labels), TALLIES[kind]
        spoiled = block.outputs.copy()
        spoiled[~block.counted] = 7
        other = RowBlock(spoiled, block.counted, block.target, block.n_labels)
        for field in fields(tally_of(block)):
            np.testing.assert_array_equal(getattr(tally_of(other), field.name), getattr(tally_of(block), field.name))


def test_support_for_labels_and_for_the_wrong_one() -> None:
    for kind in ("labels", "probabilities"):
        block = random_block(kind, 2)
        support, wrong = label_support(block, block.counted), wrong_support(block)
        for row in range(9):
            expected = sum((indicator(block, member, row) for member in counted_members(block, row)), np.zeros(2))
            np.testing.assert_allclose(support[row], expected)
            for member in range(7):
                assert wrong[member, row] == indicator(block, member, row)[1 - int(block.target[row])]


def test_rival_is_never_the_truth() -> None:
    support = np.array([[9.0, 1.0, 2.0], [0.0, 0.0, 0.0], [5.0, 5.0, 5.0]])
    np.testing.assert_array_equal(strongest_rival(support, np.array([0, 0, 1])), [2, 1, 0])
    np.testing.assert_array_equal(strongest_rival(-support, np.array([0, 0, 1])), [1, 1, 0])


def test_margin_against_a_given_rival() -> None:
    block = random_block("probabilities", 3)
    rival = np.full(9, 2)
    expected = [[brute_margin(block, member, row, 2) for row in range(9)] for member in range(7)]
    np.testing.assert_allclose(member_margins(block, rival), expected)


def test_sums_run_in_member_order() -> None:
    """Floating sums in a fixed order: the result is the plain loop's, to the bit."""
    rng = np.random.default_rng(0)
    values, is_oob = rng.normal(size=(200, 3)) * 10.0 ** rng.integers(-8, 8, (200, 3)), rng.random((200, 3)) < 0.7
    expected = [0.0, 0.0, 0.0]
    for member in range(200):
        for row in range(3):
            expected[row] += values[member, row] if is_oob[member, row] else 0.0
    np.testing.assert_array_equal(sum_over_members(values, is_oob), expected)


@pytest.mark.parametrize("n_members", [1, 254, 255, 256, 511, 1000])
def test_members_are_counted_beyond_a_byte(n_members: int) -> None:
    mask = np.random.default_rng(0).random((n_members, 5)) < 0.95
    mask[:, 0] = True
    np.testing.assert_array_equal(count_members(mask), mask.sum(axis=0))
    np.testing.assert_array_equal(count_members(mask[:, 1:3]), mask[:, 1:3].sum(axis=0))


@pytest.mark.parametrize(("n_members", "kind"), [(255, "uint8"), (256, "uint16"), (700, "uint16")])
@pytest.mark.parametrize("outputs", ["labels", "probabilities", "values"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_counts_are_kept_in_few_bytes(n_members: int, kind: str, outputs: str, n_labels: int) -> None:
    block = random_block(outputs, n_labels, n_members=n_members)
    # Of some rows all members count, and all of them are wrong.
    block.counted[:, :3] = True
    if outputs == "labels":
        block.outputs[:, 0] = (block.target[0] + 1) % n_labels
    tally = TALLIES[outputs](block)
    counts = {"trials": block.counted}
    if outputs != "values":
        labels = block.outputs if outputs == "labels" else block.outputs.argmax(axis=2)
        counts["wrong_members"] = block.counted & (labels != block.target)
    for name, mask in counts.items():
        assert vars(tally)[name].dtype == kind
        np.testing.assert_array_equal(getattr(tally, name), np.count_nonzero(mask, axis=0))


def test_numbers_that_do_not_fit_are_not_copied() -> None:
    narrow, wide = (Tally(np.array([1, 255], dtype=dtype)) for dtype in (np.uint8, np.uint16))
    assert joined([wide, narrow]).trials.tolist() == [1.0, 255.0, 1.0, 255.0]
    with pytest.raises(TypeError, match="Cannot cast"):
        copy_rows(wide, empty_tally(narrow, 2), 0)
