"""Votes over answers: forms of input, what is refused, and shares of questions where they are known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import ens_plugin
from ens_plugin.errors import EnsPluginError, InputError, TooFewMembersError
from ens_plugin.votes import VoteReport, last_number

ANSWERS = [["4", "4", "5", "4"], ["7", "9", "7", "7"], ["1", "2", "2", "2"], ["3", "3", "3", "3"]] * 25
TRUTH = ["4", "7", "1", "3"] * 25


def drawn(n_questions: int, n_samples: int, seed: int, weights: tuple[float, ...] = (4, 1, 1, 1)) -> Any:
    """Answers of which "a0" is right, shape (n_questions, n_samples)."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(weights, n_questions)
    codes = (rng.random((n_questions, n_samples, 1)) > np.cumsum(shares, axis=1)[:, None, :-1]).sum(axis=2)
    return np.char.add("a", codes.astype(str)).astype(object)


def curve(found: VoteReport) -> list[float]:
    return found.to_frame().maj_at_k.tolist()


def as_table() -> pd.DataFrame:
    rows = [(f"q{place}", answer) for place, row in enumerate(ANSWERS) for answer in row]
    return pd.DataFrame(rows, columns=["question", "answer"])


FORMS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "array": lambda: (np.array(ANSWERS), np.array(TRUTH)),
    "mapping": lambda: (
        {f"q{place}": row for place, row in enumerate(ANSWERS)},
        {f"q{place}": right for place, right in enumerate(TRUTH)},
    ),
    "table": lambda: (as_table(), TRUTH),
    "table with truth": lambda: (as_table().assign(truth=np.repeat(TRUTH, 4)), None),
    "wide table": lambda: (pd.DataFrame(ANSWERS), pd.Series(TRUTH)),
    "truth in another order": lambda: (
        as_table(),
        pd.Series(TRUTH, index=[f"q{place}" for place in range(100)]).sample(frac=1, random_state=0),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_answers_is_the_same(form: str) -> None:
    expected, found = ens_plugin.analyze_votes(ANSWERS, TRUTH), ens_plugin.analyze_votes(*FORMS[form]())
    assert curve(found) == curve(expected)
    assert found.recommended_size == expected.recommended_size


def test_answers_may_be_anything_that_can_be_a_key() -> None:
    expected = ens_plugin.analyze_votes(ANSWERS, TRUTH)
    for kind in (int, float, lambda text: (text, "x")):
        answers = [[kind(answer) for answer in row] for row in ANSWERS]
        assert curve(ens_plugin.analyze_votes(answers, [kind(right) for right in TRUTH])) == curve(expected)


def test_same_input_and_seed_is_the_same_result() -> None:
    first, second = (ens_plugin.analyze_votes(drawn(100, 6, 0), ["a0"] * 100) for _ in range(2))
    assert first.to_json() == second.to_json()


def test_pass_at_k_is_the_mean_over_subsets() -> None:
    answers = drawn(40, 5, 0)
    right = answers == "a0"
    frame = ens_plugin.analyze_votes(answers, ["a0"] * 40).to_frame()
    for k in range(1, 6):
        parts = [right[:, list(chosen)] for chosen in combinations(range(5), k)]
        assert frame.pass_at_k[k] == pytest.approx(np.mean([part.any(axis=1).mean() for part in parts]))
        assert frame.pass_hat_k[k] == pytest.approx(np.mean([part.all(axis=1).mean() for part in parts]))
    assert frame.pass_at_k.is_monotonic_increasing
    assert frame.pass_hat_k.is_monotonic_decreasing


def test_majority_of_one_sample_is_the_mean() -> None:
    answers = drawn(200, 6, 1)
    found = ens_plugin.analyze_votes(answers, ["a0"] * 200)
    assert found.to_frame().maj_at_k[1.0] == pytest.approx((answers == "a0").mean(), abs=1e-9)


@pytest.mark.parametrize("weights", [(6, *[0.5] * 5), (8, *[0.3] * 5), (3, 1.5)])
def test_intervals_up_to_the_samples_at_hand_are_those_of_what_is_counted(weights: tuple[float, ...]) -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(weights, 300)
    counts = rng.multinomial(9, shares)
    answers = [np.repeat(np.arange(own.size), own).tolist() for own in counts]
    told = ens_plugin.analyze_votes(answers, [0] * 300).at([1, 2, 9])
    again = rng.multinomial(9, shares, (4000, 300))
    wins = again == again.max(axis=2, keepdims=True)
    of_one, of_all = again[:, :, 0].mean(axis=1) / 9, (wins[:, :, 0] / wins.sum(axis=2)).mean(axis=1)
    half_width = ((told["upper"] - told["lower"]) / 2).to_numpy() / 1.96
    ratio = half_width / [of_one.std(), of_one.std(), of_all.std()]
    assert ((ratio > 0.8) & (ratio < 1.4)).all(), ratio


def test_majority_of_three_is_near_its_unbiased_average() -> None:
    """The mean over all subsets of three, ties shared."""
    answers = drawn(400, 6, 2)
    won = []
    for chosen in combinations(range(6), 3):
        part = (answers[:, list(chosen)] == "a0").sum(axis=1)
        distinct = np.array([len(set(row)) for row in answers[:, list(chosen)]])
        won.append(np.where(part >= 2, 1.0, np.where((part == 1) & (distinct == 3), 1 / 3, 0.0)).mean())
    found = ens_plugin.analyze_votes(answers, ["a0"] * 400)
    assert found.to_frame().maj_at_k[3.0] == pytest.approx(np.mean(won), abs=0.01)


@pytest.mark.parametrize("weights", [(4, 1, 1, 1), (1, 1), (2, *[0.5] * 6)])
def test_error_at_many_samples_is_the_true_one(weights: tuple[float, ...]) -> None:
    found = ens_plugin.analyze_votes(drawn(2000, 8, 0, weights), ["a0"] * 2000)
    shares = np.random.default_rng(1).dirichlet(weights, 40_000)
    votes = np.random.default_rng(2).multinomial(64, shares)
    wins = votes == votes.max(axis=1, keepdims=True)
    assert found.to_frame().maj_at_k[np.inf] == pytest.approx(np.mean(shares.argmax(axis=1) == 0), abs=0.03)
    assert found.at([64]).maj_at_k.iloc[0] == pytest.approx(np.mean(wins[:, 0] / wins.sum(axis=1)), abs=0.03)


def test_order_of_samples_and_names_of_answers_do_not_matter() -> None:
    answers = drawn(300, 8, 3)
    expected = ens_plugin.analyze_votes(answers, ["a0"] * 300).to_frame().maj_at_k
    rng = np.random.default_rng(0)
    named = np.array([[f"{place} {answer}" for answer in row] for place, row in enumerate(answers)], dtype=object)
    changed = ens_plugin.analyze_votes(rng.permuted(named, axis=1), [f"{place} a0" for place in range(300)])
    assert changed.to_frame().maj_at_k.tolist() == pytest.approx(expected.tolist())


def test_unequal_numbers_of_samples() -> None:
    answers = drawn(600, 12, 4)
    rng = np.random.default_rng(0)
    uneven = [list(row[: rng.integers(3, 13)]) for row in answers]
    found = ens_plugin.analyze_votes(uneven, ["a0"] * 600)
    assert (found.fewest_samples, found.n_samples) == (3, 12)
    shares = np.random.default_rng(4).dirichlet((4, 1, 1, 1), 600)
    assert found.to_frame().maj_at_k[np.inf] == pytest.approx(np.mean(shares.argmax(axis=1) == 0), abs=0.03)
    assert "3 to 12 samples" in str(found)


def test_more_samples_of_hard_questions_do_not_count_more() -> None:
    """Numbers of samples that depend on the question leave its weight as it is."""
    easy, hard = drawn(300, 12, 5, (9, 0.5, 0.5)), drawn(300, 12, 6, (1, 1, 1))
    answers = [*(list(row[:4]) for row in easy), *(list(row) for row in hard)]
    found = ens_plugin.analyze_votes(answers, ["a0"] * 600).to_frame().maj_at_k[1.0]
    expected = ((easy[:, :4] == "a0").mean() + (hard == "a0").mean()) / 2
    assert found == pytest.approx(expected, abs=0.01)


def test_majority_of_all_samples_is_their_own() -> None:
    answers = drawn(300, 8, 7, (1.5, 1, 1, 1))
    counts = np.stack([(answers == f"a{code}").sum(axis=1) for code in range(4)], axis=1)
    wins = counts == counts.max(axis=1, keepdims=True)
    found = ens_plugin.analyze_votes(answers, ["a0"] * 300)
    assert found.to_frame().maj_at_k[8.0] == pytest.approx(np.mean(wins[:, 0] / wins.sum(axis=1)), abs=1e-9)


def test_majority_of_two_is_that_of_one() -> None:
    for weights in ((4, 1, 1, 1), (2, 1)):
        frame = ens_plugin.analyze_votes(drawn(200, 6, 0, weights), ["a0"] * 200).at([1.0, 2.0])
        assert frame.maj_at_k.iloc[0] == pytest.approx(frame.maj_at_k.iloc[1], abs=0.005)


@pytest.mark.parametrize("unread", [None, math.nan, pd.NA, "", "  ", "[invalid]"], ids=repr)
def test_what_could_not_be_read_does_not_vote(unread: Any) -> None:
    """Most samples cannot be read, and all others are right."""
    answers = [["right", unread, unread, "right", unread]] * 60
    found = ens_plugin.analyze_votes(answers, ["right"] * 60)
    assert found.to_frame().maj_at_k[[1.0, np.inf]].tolist() == pytest.approx([1.0, 1.0], abs=0.01)
    assert found.n_samples == 2
    assert "[unread-samples]" in str(found)


def test_a_question_of_which_nothing_could_be_read_is_wrong() -> None:
    found = ens_plugin.analyze_votes([*ANSWERS, *[[None] * 4] * 100], [*TRUTH, *["x"] * 100])
    half = ens_plugin.analyze_votes(ANSWERS, TRUTH).to_frame().maj_at_k[1.0] / 2
    assert found.n_questions == 200
    assert found.to_frame().maj_at_k[[1.0, np.inf]].tolist() == pytest.approx([half, half], abs=0.08)


@pytest.mark.parametrize("several", [set, frozenset, list])
def test_any_of_several_accepted_answers_is_right(several: Any) -> None:
    answers = [["3/4", "0.75", "3/4", "0.75", "1"]] * 60
    one = ens_plugin.analyze_votes(answers, ["3/4"] * 60).to_frame().maj_at_k[1.0]
    found = ens_plugin.analyze_votes(answers, [several(["3/4", "0.75"])] * 60).to_frame().maj_at_k
    assert (one, found[1.0]) == pytest.approx((0.4, 0.8))
    assert found[np.inf] > 0.95


def test_questions_without_truth_are_left_out() -> None:
    found = ens_plugin.analyze_votes(ANSWERS, [*TRUTH[:60], *[None] * 40])
    assert found.n_questions == 60


def test_without_truth_there_is_the_agreement() -> None:
    found = ens_plugin.analyze_votes(drawn(200, 8, 0))
    assert not found.has_truth
    assert list(found.to_frame().columns) == ["agreement", "agreement_lower", "agreement_upper"]
    assert "right" not in str(found)


def test_groups_widen_intervals_for_new_questions() -> None:
    answers = np.repeat(drawn(40, 8, 0), 5, axis=0)
    alone = ens_plugin.analyze_votes(answers, ["a0"] * 200).at([np.inf])
    together = ens_plugin.analyze_votes(answers, ["a0"] * 200, groups=np.repeat(np.arange(40), 5)).at([np.inf])
    widths = [float((found.new_upper - found.new_lower).iloc[0]) for found in (alone, together)]
    assert widths[1] > 1.5 * widths[0]


def test_one_number_is_always_stated() -> None:
    """Of questions that are nearly ties a size is stated too, however large."""
    found = ens_plugin.analyze_votes(drawn(100, 4, 0, (30, 29)), ["a0"] * 100, tolerance=0.001)
    assert found.size_interval[0] <= found.recommended_size <= found.size_interval[1]
    assert found.recommended_size > 100


def test_new_questions_are_not_certain_where_all_of_these_are_right() -> None:
    limit = ens_plugin.analyze_votes([["yes"] * 3] * 25, ["yes"] * 25).at([np.inf]).iloc[0]
    # Of 25 that are known to be right, the exact lower end is 0.863; three samples leave some of it open.
    assert 0.8 < limit.new_lower < 0.025 ** (1 / 25) + 0.005


@pytest.mark.parametrize("truth", [["a0"] * 100, None])
def test_picture_counts_samples(truth: list[str] | None) -> None:
    axes = ens_plugin.analyze_votes(drawn(100, 8, 0), truth).plot(Figure().subplots())
    assert axes.get_xlabel() == "samples to each question"
    assert any(str(label).startswith("now: 8") for label in axes.get_legend_handles_labels()[1])


def test_undecided_questions_have_their_own_answers() -> None:
    answers = {"tied": ["x", "y", "x", "y"], "clear": ["z"] * 4, **{f"q{place}": ["z"] * 4 for place in range(30)}}
    found = ens_plugin.analyze_votes(answers)
    assert found.undecided.index.tolist() == ["tied"]
    assert set(found.undecided.loc["tied", ["answer", "runner_up"]]) == {"x", "y"}
    assert found.undecided.loc["tied", "chance"] == pytest.approx(0.5, abs=0.15)


def test_equal_weights_are_hardly_weights() -> None:
    answers = drawn(400, 8, 0)
    plain = ens_plugin.analyze_votes(answers, ["a0"] * 400)
    weighted = ens_plugin.analyze_votes(answers, ["a0"] * 400, weight=np.full((400, 8), 0.3))
    assert weighted.to_frame().maj_at_k[8.0] == pytest.approx(plain.to_frame().maj_at_k[8.0], abs=0.02)


def test_weights_of_right_answers_help() -> None:
    answers = drawn(300, 8, 0)
    weight = np.where(answers == "a0", 2.0, 1.0)
    plain = ens_plugin.analyze_votes(answers, ["a0"] * 300).to_frame().maj_at_k[8.0]
    assert ens_plugin.analyze_votes(answers, ["a0"] * 300, weight=weight).to_frame().maj_at_k[8.0] > plain + 0.05


def test_weights_do_not_change_what_single_samples_are() -> None:
    """One sample is its own majority, whatever its weight; pass@k counts samples."""
    answers = drawn(100, 6, 0, (1, 1))
    weight = np.where(answers == "a0", 0.9, 0.1)
    columns = ["pass_at_k", "pass_hat_k"]
    plain = ens_plugin.analyze_votes(answers, ["a0"] * 100).at(range(1, 7))
    found = ens_plugin.analyze_votes(answers, ["a0"] * 100, weight=weight).at(range(1, 7))
    assert found.maj_at_k[1.0] == pytest.approx((answers == "a0").mean())
    assert found[columns].to_numpy() == pytest.approx(plain[columns].to_numpy())


def test_unread_samples_may_have_no_weight() -> None:
    answers = {
        **{f"q{place}": ["r", "r", "a"] for place in range(50)},
        **{f"u{place}": [None] * 3 for place in range(50)},
    }
    weight = {name: [0.0] * 3 if name.startswith("u") else [1.0] * 3 for name in answers}
    found = ens_plugin.analyze_votes(answers, dict.fromkeys(answers, "r"), weight=weight).to_frame()
    assert found.maj_at_k[3.0] == pytest.approx(0.5)
    assert found.pass_at_k[1.0] == pytest.approx(1 / 3)


def test_a_series_of_truths_belongs_to_the_names_of_the_questions() -> None:
    """It has as many values as there are answers, by chance."""
    names = [f"q{place}" for place in range(90)]
    answers = {name: ["a", "a", "b"] for name in names[:30]}
    truth = pd.Series(["a" if place < 30 else "b" for place in range(90)], index=names)
    found = ens_plugin.analyze_votes(answers, truth).to_frame()
    assert found.pass_at_k[1.0] == pytest.approx(2 / 3)


def test_the_order_of_a_set_of_truths_does_not_matter() -> None:
    answers = np.where(drawn(60, 5, 0, (2, 1)) == "a0", "yes", "no")
    found = [
        ens_plugin.analyze_votes(answers, [frozenset(several)] * 60).to_json()
        for several in (["yes", "y"], ["y", "yes"])
    ]
    assert found[0] == found[1] == ens_plugin.analyze_votes(answers, ["yes"] * 60).to_json()


def test_what_no_size_reaches_is_more_than_all() -> None:
    found = ens_plugin.analyze_votes(drawn(100, 5, 0), ["a0"] * 100, tolerance=1e-12)
    assert found.recommended_size > 1_000_000
    assert "more than 1000000" in str(found)


def test_weights_may_have_any_unit_and_order() -> None:
    answers = {f"q{place}": list(row) for place, row in enumerate(drawn(100, 6, 0))}
    rng = np.random.default_rng(0)
    weight = {name: rng.random(6) for name in answers}
    expected = curve(ens_plugin.analyze_votes(answers, ["a0"] * 100, weight=weight))
    small = {name: 1e-50 * weight[name] for name in reversed(weight)}
    assert curve(ens_plugin.analyze_votes(answers, ["a0"] * 100, weight=small)) == pytest.approx(expected)


def test_truth_of_a_shuffled_table_belongs_to_its_rows() -> None:
    """A list of questions has an order and no names, so that the index of a Series says nothing."""
    shuffled = pd.DataFrame(ANSWERS).assign(gold=TRUTH).sample(frac=1, random_state=0)
    found = ens_plugin.analyze_votes(shuffled.drop(columns="gold").to_numpy(), shuffled["gold"])
    assert found.to_frame().maj_at_k[1.0] == pytest.approx(0.6875)


def test_answers_that_are_never_right_are_doubted() -> None:
    text = str(ens_plugin.analyze_votes([["7.0", "7.0", "8.0"]] * 60, ["7"] * 60))
    assert "never-right" in text


def test_samples_that_depend_on_the_question_are_doubted() -> None:
    easy, hard = drawn(150, 8, 5, (9, 0.5, 0.5)), drawn(150, 8, 6, (1, 1, 1))
    uneven = [*(list(row) for row in easy), *(list(row[:2]) for row in hard)]
    assert "uneven-samples" in str(ens_plugin.analyze_votes(uneven, ["a0"] * 300))
    alike = [list(row[: 2 + 6 * (place % 2)]) for place, row in enumerate(drawn(300, 8, 7))]
    assert "uneven-samples" not in str(ens_plugin.analyze_votes(alike, ["a0"] * 300))


def test_normalize_makes_answers_the_same() -> None:
    texts = [[f"I get {answer}.0, so {answer}" for answer in row] for row in ANSWERS]
    found = ens_plugin.analyze_votes(texts, TRUTH, normalize=last_number)
    assert curve(found) == curve(ens_plugin.analyze_votes(ANSWERS, TRUTH))


def test_result_reads_as_about_questions_and_samples() -> None:
    text = str(ens_plugin.analyze_votes(drawn(300, 8, 0), ["a0"] * 300))
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 24
    for word in ("row", "member", "label", "tree", "bag"):
        assert word not in text


@pytest.mark.parametrize("truth", [["a0"] * 100, None])
def test_json_has_the_curves(truth: list[str] | None) -> None:
    found = ens_plugin.analyze_votes(drawn(100, 8, 0), truth)
    content = json.loads(found.to_json())
    assert content["curves"]["agreement"] == pytest.approx(found.to_frame().agreement.tolist())
    assert content["curves"]["k"][0] == 1
    assert content["curves"]["k"][-1] is None
    assert content["recommended_size"] == found.recommended_size
    assert ("maj_at_k" in content["curves"]) == (truth is not None)


WRONG: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "one sample each": ([["a"]] * 50, ["a"] * 50, {}, "Draw at least 3 samples"),
    "no answer twice": ([[f"{q} {b}" for b in range(4)] for q in range(50)], None, {}, "pass normalize"),
    "answers that are lists": ([[["a"], ["b"], ["a"]]] * 50, None, {}, "normalize=str"),
    "a text": ("abc", None, {}, "answers is 'abc'"),
    "texts as rows": (["abc"] * 50, None, {}, "which is no list"),
    "nothing": ([], None, {}, "no answers"),
    "a question without samples": ([*ANSWERS[:-1], []], TRUTH, {}, "Question 99 has no samples; leave it out"),
    "none read": ([[None] * 4] * 50, None, {}, "No answer could be read"),
    "truth too short": (ANSWERS, TRUTH[:-1], {}, "99 values"),
    "truth of other questions": ({"q": ["a", "a", "b"], "r": ["a", "a", "b"]}, {"x": "a"}, {}, "is no question"),
    "truth unknown": (ANSWERS, [None] * 100, {}, "truth of 0 questions"),
    "truth of another type": (ANSWERS, [4, 7, 1, 3] * 25, {}, "not texts"),
    "two truths": (as_table().assign(truth=[str(place) for place in range(400)]), None, {}, "two values"),
    "weights of another shape": (ANSWERS, TRUTH, {"weight": np.ones((100, 3))}, "form of answers"),
    "negative weights": (ANSWERS, TRUTH, {"weight": -np.ones((100, 4))}, "weight must be non-negative"),
    "truths that are lists of lists": (ANSWERS, [[["4"], ["5"]]] * 100, {}, "cannot be compared"),
    "a negative seed": (ANSWERS, TRUTH, {"random_state": -1}, "random_state"),
    "one question": ([["a"] * 9], ["a"], {}, "of 1 question|There is 1 question"),
    "a tolerance above 1": (ANSWERS, TRUTH, {"tolerance": 1.5}, "tolerance must lie"),
    "normalize that fails": (ANSWERS, TRUTH, {"normalize": lambda answer: 1 / 0}, "normalize fails"),
    "missing question": (as_table().assign(question=None), None, {}, "no question"),
    "two questions of one name": (pd.DataFrame(ANSWERS, index=["q"] * 100), TRUTH, {}, "Two questions are called 'q'"),
    "a table without answers": (as_table().rename(columns={"answer": "reply"}), None, {}, "lacks the column"),
    "truth beside the samples": (pd.DataFrame(ANSWERS).assign(truth=TRUTH), None, {}, "lacks the column"),
    "names that fit in part": (as_table(), {f"q{place + 1}": "4" for place in range(100)}, {}, "is no question"),
    "truth as a word": (ANSWERS, "gold", {}, "truth is 'gold'"),
    "groups as a word": (ANSWERS, TRUTH, {"groups": "document"}, "groups is 'document'"),
    "one group": (ANSWERS, None, {"groups": ["a"] * 100}, "in one group"),
    "missing group": (ANSWERS, None, {"groups": ["a", None] * 50}, "no group"),
    "weight as a number": (ANSWERS, TRUTH, {"weight": 3}, "form of answers"),
    "weights of other questions": ({"q": ["a", "a"], "r": ["b", "b"]}, None, {"weight": {"q": [1, 1]}}, "question 'r'"),
    "two columns of answers": (pd.concat([as_table(), as_table()[["answer"]]], axis=1), None, {}, "two columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused(name: str) -> None:
    answers, truth, options, message = WRONG[name]
    with pytest.raises(EnsPluginError, match=message) as raised:
        ens_plugin.analyze_votes(answers, truth, **options)
    assert isinstance(raised.value, (InputError, TooFewMembersError))


@pytest.mark.parametrize(
    ("answers", "truth"),
    [
        ([["a"] * 4, ["b"] * 4] * 50, ["a"] * 100),
        ([["a"] * 4] * 100, ["a"] * 100),
        (ANSWERS, ["none of these"] * 100),
        ([["a", "b", "a"], ["b", "c", "b"]], ["a", "b"]),
        ([[True, True, False]] * 50, [True] * 50),
    ],
    ids=["no two answers", "all right", "never right", "two questions", "yes or no"],
)
def test_extremes_are_answered(answers: Any, truth: Any) -> None:
    found = ens_plugin.analyze_votes(answers, truth)
    right = np.mean([[answer == right for answer in row] for row, right in zip(answers, truth, strict=True)])
    assert found.to_frame().maj_at_k[1.0] == pytest.approx(right, abs=0.02)
    assert isinstance(str(found), str)


@pytest.mark.slow
def test_many_questions_take_seconds_and_little_memory() -> None:
    import tracemalloc

    answers = np.tile(drawn(2000, 64, 0, (2, *[0.1] * 29)), (25, 1))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found = ens_plugin.analyze_votes(answers, ["a0"] * 50_000)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert found.n_questions == 50_000
    assert peak < 300e6
