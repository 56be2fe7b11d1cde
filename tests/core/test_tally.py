from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.tally import (
    AnyTally,
    RowBlock,
    SupportTally,
    both_scores,
    concatenate,
    copy_rows,
    count_members,
    empty_tally,
    label_support,
    mean_share,
    member_margins,
    parts_of,
    select_rows,
    strongest_rival,
    sum_over_members,
    tally_margins,
    tally_score_signs,
    tally_support,
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


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_support_tally_row_by_row(kind: str) -> None:
    block = random_block(kind, 2)
    tally = tally_support(block)
    for row in range(block.target.size):
        wrong = 1 - int(block.target[row])
        support = np.array([indicator(block, member, row)[wrong] for member in counted_members(block, row)])
        labels = [int(np.argmax(indicator(block, member, row))) for member in counted_members(block, row)]
        assert tally.trials[row] == len(labels)
        assert tally.wrong[row] == pytest.approx(support.sum())
        assert tally.squares[row] == pytest.approx((support**2).sum())
        assert tally.wrong_labels[row] == labels.count(wrong)


def test_hard_votes_are_counted_exactly() -> None:
    tally = tally_support(random_block("labels", 2))
    np.testing.assert_array_equal(tally.wrong, tally.squares)
    np.testing.assert_array_equal(tally.wrong, np.floor(tally.wrong))


def brute_rival(block: RowBlock, row: int, members: list[int]) -> int:
    support = sum((indicator(block, member, row) for member in members), np.zeros(block.n_labels)).copy()
    support[int(block.target[row])] = -1.0
    return int(np.argmax(support))


def brute_margin(block: RowBlock, member: int, row: int, rival: int) -> float:
    support = indicator(block, member, row)
    return float(support[int(block.target[row])] - support[rival])


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
@pytest.mark.parametrize("n_labels", [2, 4])
def test_margin_tally_row_by_row(kind: str, n_labels: int) -> None:
    block = random_block(kind, n_labels, n_members=9)
    tally = tally_margins(block)
    for row in range(block.target.size):
        members = counted_members(block, row)
        rival = brute_rival(block, row, members)
        margins = np.array([brute_margin(block, member, row, rival) for member in members])
        assert tally.mean[row] == pytest.approx(margins.mean() if members else 0.0)
        assert tally.sd[row] == pytest.approx(margins.std(ddof=1) if len(members) > 1 else 0.0, abs=1e-12)
        assert tally.trials[row] == len(members)
        own = [int(np.argmax(indicator(block, member, row))) for member in members]
        assert tally.wrong_labels[row] == sum(label != block.target[row] for label in own)


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


@given(st.sampled_from(["support", "margins", "values"]), st.integers(1, 8), st.integers(0, 5))
def test_tallies_of_blocks_concatenate_to_the_bit(name: str, cut: int, seed: int) -> None:
    tallies: dict[str, Callable[[RowBlock], AnyTally]] = {
        "support": tally_support,
        "margins": tally_margins,
        "values": tally_values,
    }
    tally_of = tallies[name]
    kind = "values" if name == "values" else "probabilities"
    block = random_block(kind, 2 if name == "support" else 3, seed)
    parts = [
        RowBlock(block.outputs[:, rows], block.counted[:, rows], block.target[rows], block.n_labels)
        for rows in (slice(0, cut), slice(cut, None))
    ]
    whole = tally_of(block)
    merged = concatenate([tally_of(part) for part in parts])
    assert type(merged) is type(whole)
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(merged, field.name), getattr(whole, field.name))


def test_select_rows_keeps_every_column() -> None:
    tally = tally_margins(random_block("labels", 3))
    usable = np.arange(9) % 2 == 0
    chosen = select_rows(tally, usable)
    for field in fields(tally):
        np.testing.assert_array_equal(getattr(chosen, field.name), getattr(tally, field.name)[usable])


def test_columns_that_are_one_array_stay_one() -> None:
    rng = np.random.default_rng(0)
    votes = [rng.integers(0, 2, (5, 9)).astype(np.uint8) for _ in range(2)]
    blocks = [RowBlock(own, rng.random((5, 9)) < 0.7, rng.integers(0, 2, 9), 2) for own in votes]
    whole = concatenate([tally_support(block) for block in blocks])
    for tally in (whole, select_rows(whole, np.arange(18) % 3 > 0)):
        assert isinstance(tally, SupportTally)
        columns = vars(tally)
        assert columns["wrong"] is columns["squares"]
        assert columns["wrong"] is not columns["trials"]


def test_outputs_that_do_not_count_are_never_read() -> None:
    for kind, n_labels, tally_of in (("probabilities", 2, tally_support), ("values", 0, tally_values)):
        block = random_block(kind, n_labels)
        spoiled = block.outputs.copy()
        spoiled[~block.counted] = 777.0
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


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_one_label_give_the_margins_of_both(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Multiples of a quarter: exact zeros and ties among them.
    scores = rng.integers(-4, 5, (11, 40)) / 4.0
    block = RowBlock(scores, rng.random((11, 40)) < 0.6, rng.integers(0, 2, 40), 2)
    fast = tally_score_signs(block)
    slow = tally_margins(RowBlock(both_scores(scores), block.counted, block.target, 2))
    for field in fields(slow):
        np.testing.assert_array_equal(getattr(fast, field.name), getattr(slow, field.name), err_msg=field.name)


@pytest.mark.parametrize("n_labels", [2, 5])
def test_scores_far_from_zero_row_by_row(n_labels: int) -> None:
    """As adapters give them, rows last in memory: moments and labels by their definitions."""
    rng = np.random.default_rng(n_labels)
    scores = (1e4 + rng.normal(size=(30, n_labels, 20))).transpose(0, 2, 1)
    block = RowBlock(scores, rng.random((30, 20)) < 0.6, rng.integers(0, n_labels, 20), n_labels)
    tally = tally_margins(block)
    for row in range(20):
        members = counted_members(block, row)
        rival = brute_rival(block, row, members)
        plain = np.array([brute_margin(block, member, row, rival) for member in members])
        np.testing.assert_allclose(
            [tally.mean[row], tally.sd[row]], [plain.mean(), plain.std(ddof=1)], rtol=1e-9, atol=1e-11
        )
        own = np.argmax(scores[members, row], axis=1)
        assert tally.wrong_labels[row] == np.count_nonzero(own != block.target[row])


@pytest.mark.parametrize("seed", range(5))
def test_score_signs_row_by_row(seed: int) -> None:
    """Few members, so that one may outweigh all others, and whole numbers, so that sums and scores may be 0."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, (4, 60)).astype(np.float64)
    block = RowBlock(scores, rng.random((4, 60)) < 0.8, rng.integers(0, 2, 60), 2)
    tally = tally_score_signs(block)
    for row in range(60):
        output = scores[block.counted[:, row], row]
        chosen = output > 0
        assert tally.trials[row] == output.size
        assert tally.wrong_labels[row] == np.count_nonzero(chosen != (block.target[row] == 1))
        margin = output if block.target[row] == 1 else -output
        assert tally.mean[row] == pytest.approx(margin.mean() if output.size else 0.0)
        assert tally.sd[row] == pytest.approx(margin.std(ddof=1) if output.size > 1 else 0.0)


@pytest.mark.parametrize("n_members", [1, 254, 255, 256, 511, 1000])
def test_members_are_counted_beyond_a_byte(n_members: int) -> None:
    mask = np.random.default_rng(0).random((n_members, 5)) < 0.95
    mask[:, 0] = True
    np.testing.assert_array_equal(count_members(mask), mask.sum(axis=0))
    np.testing.assert_array_equal(count_members(mask[:, 1:3]), mask[:, 1:3].sum(axis=0))


@given(st.integers(1, 29), st.integers(0, 5))
def test_score_signs_of_blocks_concatenate_to_the_bit(cut: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, is_oob, target = rng.normal(size=(300, 30)), rng.random((300, 30)) < 0.5, rng.integers(0, 2, 30)
    whole = tally_score_signs(RowBlock(scores, is_oob, target, 2))
    parts = [
        tally_score_signs(RowBlock(scores[:, rows], is_oob[:, rows], target[rows], 2))
        for rows in (slice(0, cut), slice(cut, None))
    ]
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(concatenate(parts), field.name), getattr(whole, field.name))


@pytest.mark.parametrize(("n_members", "kind"), [(255, "uint8"), (256, "uint16"), (700, "uint16")])
@pytest.mark.parametrize("outputs", ["labels", "probabilities", "values"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_counts_are_kept_in_few_bytes(n_members: int, kind: str, outputs: str, n_labels: int) -> None:
    block = random_block(outputs, n_labels, n_members=n_members)
    # Of some rows all members count, and all of them are wrong.
    block.counted[:, :3] = True
    if outputs == "labels":
        block.outputs[:, 0] = (block.target[0] + 1) % n_labels
    if outputs == "values":
        tally: AnyTally = tally_values(block)
    else:
        tally = tally_support(block) if n_labels == 2 else tally_margins(block)
    counts = {"trials": block.counted}
    if outputs != "values":
        labels = block.outputs if outputs == "labels" else block.outputs.argmax(axis=2)
        counts["wrong_labels"] = block.counted & (labels != block.target)
    for name, mask in counts.items():
        assert vars(tally)[name].dtype == kind
        np.testing.assert_array_equal(getattr(tally, name), np.count_nonzero(mask, axis=0))


def test_tallies_of_several_types_merge_without_a_loss() -> None:
    columns = [np.array([1, 255], dtype=np.uint8), np.array([300, 65_535], dtype=np.uint16), np.array([0.5, 2.0])]
    parts = [SupportTally(column, column, column, column) for column in columns]
    merged = concatenate(parts)
    np.testing.assert_array_equal(merged.trials, np.concatenate(columns))
    narrow = concatenate(parts[:2])
    assert [column.dtype for column in vars(narrow).values()] == ["uint16"] * 4
    assert len({id(column) for column in vars(narrow).values()}) == 1
    whole = empty_tally(parts[1], 4)
    copy_rows(parts[1], whole, 0)
    copy_rows(parts[0], whole, 2)
    assert whole.trials.tolist() == [300.0, 65_535.0, 1.0, 255.0]
    with pytest.raises(TypeError, match="Cannot cast"):
        copy_rows(parts[1], empty_tally(parts[0], 2), 0)


def test_parts_hold_every_row_once_and_copy_none() -> None:
    n_rows = 150_000
    counts = np.random.default_rng(0).integers(1, 90, n_rows).astype(np.uint8)
    tally = SupportTally(counts, counts * 0.3, counts * 0.2, counts)
    parts = list(parts_of(tally))
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([np.arange(n_rows)[rows] for rows, _ in parts]), np.arange(n_rows))
    np.testing.assert_array_equal(np.concatenate([part.wrong for _, part in parts]), tally.wrong)
    assert all(np.shares_memory(vars(part)["trials"], counts) for _, part in parts)


def test_mean_share_is_numpys_average_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    trials = rng.integers(1, 300, 150_000)
    wrong, weight = rng.binomial(trials, 0.3), rng.lognormal(size=trials.size)
    counts, labels = trials.astype(np.uint16), wrong.astype(np.uint16)
    tally = SupportTally(counts, labels, labels, labels)
    expected = np.average(wrong / trials, weights=weight)
    assert mean_share(tally, lambda part: part.wrong_labels, weight) == expected
