"""Recorded answers: how they are read and chosen, and the truth that they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.votes.recorded import chosen, game_of_24, letters, record, recorded, tallied
from benchmarks.votes.simulated import won


def test_right_answers_count_as_one() -> None:
    counts = tallied([{"24": 3, "6*4": 2, "25": 1}, {"7": 4}], [{"24", "6*4"}, {"8"}])
    assert counts.tolist() == [[5, 1], [0, 4]]


def test_letters_are_those_after_the_last_words(tmp_path: Path) -> None:
    file = tmp_path / "ESC/GPT3.5_result/last_letters/T0.7.jsonl"
    file.parent.mkdir(parents=True)
    given = ["A: so the answer is yajo.", 'the answer is x. The answer is "y-a-j-o".', "the answer is yajp"]
    file.write_text(json.dumps({"answer": "yajo", "generated_answer": given}) + "\n", encoding="utf-8")
    assert letters(tmp_path).tolist() == [[2, 1]]


def test_wrong_formulas_are_told_apart_and_right_ones_are_not(tmp_path: Path) -> None:
    texts = ["Steps\nAnswer: (6 - 2) * 6 = 24", "Answer: 6*4 = 24", "Answer: 5 * 5 = 24", "Answer: 5*5", "None"]
    puzzle = {"ys": texts, "infos": [{"r": 1}, {"r": 1}, {"r": 0}, {"r": 0}, {"r": 0}]}
    (tmp_path / "log").write_text(json.dumps([puzzle]), encoding="utf-8")
    assert game_of_24(tmp_path, "log").tolist() == [[2, 2, 1]]


def test_answers_are_chosen_without_replacement() -> None:
    counts = np.array([[3, 1, 0], [0, 2, 4]])
    rng = np.random.default_rng(0)
    drawn = np.array([chosen(counts, 3, rng) for _ in range(4000)])
    assert (drawn.sum(axis=2) == 3).all()
    assert (drawn <= counts).all()
    # Of 4 answers, 3 are all but one.
    assert drawn[:, 0, 1].mean() == pytest.approx(0.75, abs=0.03)
    assert chosen(counts[:1], 4, rng).tolist() == [[3, 1, 0]]


def test_the_truth_is_exact_where_it_can_be_counted() -> None:
    counts = np.array([[3, 2, 0], [2, 2, 1]])
    whole = record(counts, 4000, np.random.default_rng(0))
    assert whole.sizes.tolist() == [1, 3, 5]
    # Of 3 answers out of 5, the right one has 2 or 3 in 7 of 10 choices; all three have one each in 4, and a tie is
    # shared.
    assert whole.right[:, 0] == pytest.approx([0.6, 0.7, 1.0], abs=0.03)
    assert whole.right[:, 1] == pytest.approx([0.4, 0.3 + 0.4 / 3, 0.5], abs=0.03)
    assert won(counts).tolist() == [1.0, 0.5]


def test_what_is_missing_is_left_out(tmp_path: Path) -> None:
    from benchmarks.shared.options import read_options

    options = read_options("benchmarks.votes.recorded", "", 1, ["--cache", str(tmp_path)])
    here, left_out = recorded(options)
    assert not here
    assert "clone github.com/Yiwei98/ESC" in left_out[2]
