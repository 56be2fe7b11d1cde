"""Repeated answers to questions as they are given: a table, a mapping or an array, with a code for each answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.answer_shares import AnswerVotes
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    AnyIntArray,
    FloatArray,
    IntArray,
    as_numbers,
    counted,
    one_line,
    shown,
)
from ens_plugin.errors import InputError

Normalize = Callable[[Any], Hashable]
# What lm-evaluation-harness writes for an answer that its filter did not find.
UNREAD = "[invalid]"
FORMS = (
    "Pass one row for each question and one column for each sample, a mapping from question to answers, or a table "
    "with the columns question and answer"
)


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers one below the other, and what is known of their questions."""

    questions: pd.Index[Any]  # in the order in which they first appear
    question: IntArray  # position of each answer's question
    answer: NDArray[Any]  # None or NaN where no answer could be read
    weight: FloatArray | None  # of each answer
    truth: NDArray[Any] | None  # of each question; None or NaN where it is not known
    groups: IntArray | None  # of each question
    is_named: bool  # whether the questions have names of the user's, and not only an order
    is_long: bool = False  # whether it was given with a row for each answer


@dataclass(frozen=True, eq=False)
class CountedAnswers:
    """How often each answer to each question was given.

    Attributes
    ----------
    questions : Index
    votes : AnswerVotes
        Column 0 is of the right answer, the others of wrong ones; without truth all are in the others.
    names : ndarray of object, shape (n_questions, n_columns)
        The answer of each column; None where there are fewer.
    n_samples, n_right : ndarray of int, shape (n_questions,)
        The answers that could be read, and how many of them are right; votes are not weighted here.
    n_unread : int
        Samples that could not be read.
    votes_per_sample : float
        What a sample counts, where votes have weights: equal ones count 1.
    """

    questions: pd.Index[Any]
    votes: AnswerVotes
    names: NDArray[Any]
    n_samples: IntArray
    n_right: IntArray
    n_unread: int
    votes_per_sample: float


def read_answers(answers: Any, truth: Any, weight: Any, groups: Any) -> AnswerTable:
    """Return answers in one form, with the truth, the weights and the groups in the order of their questions."""
    is_table = isinstance(answers, pd.DataFrame) and {"question", "answer"} <= set(answers.columns)
    table = _from_table(answers, weight) if is_table else _from_rows(answers, weight)
    if table.questions.size == 0 or table.answer.size == 0:
        raise InputError(f"There are no answers. {FORMS}.")
    if not table.questions.is_unique:
        twice = table.questions[table.questions.duplicated()][0]
        raise InputError(f"Two questions are called {shown(twice, 40)}; give each a name of its own.")
    columns = answers if is_table else {}
    truth = columns["truth"] if truth is None and "truth" in columns else truth
    groups = columns["group"] if groups is None and "group" in columns else groups
    return replace(
        table,
        truth=None if truth is None else _by_question(truth, table, "truth"),
        groups=None if groups is None else _group_codes(_by_question(groups, table, "groups")),
    )


def _from_table(answers: pd.DataFrame, weight: Any) -> AnswerTable:
    twice = answers.columns[answers.columns.duplicated()]
    if twice.size:
        raise InputError(f"The table has two columns {shown(twice[0], 40)}; keep one.")
    if answers["question"].isna().any():
        raise InputError(
            f"{counted(int(answers['question'].isna().sum()), 'row has', 'rows have')} no question; name the question "
            "of each answer."
        )
    codes, questions = pd.factorize(answers["question"])
    weight = answers["weight"] if weight is None and "weight" in answers else weight
    values = None if weight is None else _as_weights(weight, len(answers))
    said = answers["answer"].to_numpy(dtype=object)
    return AnswerTable(
        pd.Index(questions), codes.astype(np.int64), said, values, None, None, is_named=True, is_long=True
    )


def _from_rows(answers: Any, weight: Any) -> AnswerTable:
    """Return the answers of a mapping from question to answers, or of one row for each question."""
    is_named = isinstance(answers, (Mapping, pd.DataFrame))
    if isinstance(answers, Mapping):
        questions, rows = pd.Index(list(answers), tupleize_cols=False), list(answers.values())
    elif isinstance(answers, pd.DataFrame):
        reserved = [name for name in answers.columns if name in ("question", "answer", "truth", "weight", "group")]
        if reserved:
            raise InputError(
                f"The table has the column {reserved[0]!r}, and so is no table of one column for each sample, but it "
                f"lacks the column question or answer. {FORMS}."
            )
        questions, rows = answers.index, list(answers.to_numpy(dtype=object))
    elif not _is_list(answers):
        raise InputError(f"answers is {shown(answers, 60)}. {FORMS}.")
    else:
        questions, rows = pd.RangeIndex(len(answers)), list(answers)
    for question, row in zip(questions, rows, strict=True):
        if not _is_list(row):
            asked = shown(question, 40)
            raise InputError(f"The answers to question {asked} are {shown(row, 60)}, which is no list. {FORMS}.")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.empty(int(lengths.sum()), dtype=object)
    flat[:] = [answer for row in rows for answer in row]
    values = None if weight is None else _weights_of_rows(weight, questions, lengths)
    return AnswerTable(questions, np.repeat(np.arange(len(rows)), lengths), flat, values, None, None, is_named)


def _is_list(values: Any) -> bool:
    is_sequence = isinstance(values, (Sequence, pd.Series, pd.Index)) and not isinstance(values, (str, bytes))
    return is_sequence or (isinstance(values, np.ndarray) and values.ndim > 0)


def _weights_of_rows(weight: Any, questions: pd.Index[Any], lengths: IntArray) -> FloatArray:
    if isinstance(weight, Mapping):
        missing = [question for question in questions if question not in weight]
        if missing:
            raise InputError(f"weight has none for question {shown(missing[0], 40)}; give one for each of its answers.")
        weight = [weight[question] for question in questions]
    rows = list(weight.to_numpy()) if isinstance(weight, pd.DataFrame) else list(weight) if _is_list(weight) else []
    if len(rows) != lengths.size or any(np.size(row) != length for row, length in zip(rows, lengths, strict=True)):
        raise InputError("weight must have the form of answers: one weight for each sample of each question.")
    return _as_weights(np.concatenate([np.ravel(row) for row in rows]), int(lengths.sum()))


def _as_weights(weight: ArrayLike, length: int) -> FloatArray:
    """Return weights relative to the largest one, so that their unit does not matter."""
    values = as_numbers(weight, "weight")
    if values.shape != (length,):
        raise InputError(f"weight has shape {values.shape}, and there are {length} answers; pass one for each.")
    if not np.isfinite(values).all() or values.min() < 0 or not values.max() > 0:
        raise InputError("weight must hold finite numbers from 0 on, some of them above 0.")
    return np.asarray(values / values.max())


def _by_question(values: Any, table: AnswerTable, name: str) -> NDArray[Any]:
    """Return a value for each question: by its name, of its rows in a long table, or in the order of the questions."""
    n_questions, n_answers = table.questions.size, table.question.size
    if isinstance(values, Mapping):
        return _by_name(pd.Index(list(values), tupleize_cols=False), _objects(list(values.values())), table, name)
    if not _is_list(values):
        raise InputError(f"{name} is {shown(values, 60)}; pass a list of one for each question, or a mapping.")
    found = _objects(values)
    if isinstance(values, pd.Series) and table.is_named and not (table.is_long and found.size == n_answers):
        return _by_name(values.index, found, table, name)
    if found.shape == (n_questions,):
        return found
    if found.shape != (n_answers,):
        raise InputError(
            f"{name} has {counted(len(found), 'value')}, and there are {counted(n_questions, 'question')}; pass one "
            "for each, or a mapping from question to value."
        )
    return _one_of_each(found, table, name)


def _by_name(names: pd.Index[Any], values: NDArray[Any], table: AnswerTable, name: str) -> NDArray[Any]:
    """Return the values of the questions by their names; refuse names that fit only in part on either side."""
    if not names.is_unique:
        raise InputError(f"{name} names a question twice; give one value for each.")
    place = names.get_indexer(table.questions)
    if (place < 0).any() and (place >= 0).sum() < names.size:
        other = names[~names.isin(table.questions)][0]
        lacking = table.questions[place < 0][0]
        raise InputError(
            f"{name} names {shown(other, 40)}, which is no question, and lacks the question {shown(lacking, 40)}. Call "
            "the questions by the same names in both."
        )
    found = values[place]
    found[place < 0] = None
    return found


def _one_of_each(found: NDArray[Any], table: AnswerTable, name: str) -> NDArray[Any]:
    """Return the value of each question where the rows of a long table repeat it."""
    first = np.unique(table.question, return_index=True)[1]
    own = found[first]
    codes = pd.factorize(found)[0]
    differs = codes != codes[first][table.question]
    if differs.any():
        question = table.questions[table.question[int(np.argmax(differs))]]
        raise InputError(f"{name} has two values for question {shown(question, 40)}; give one for each question.")
    return own


def _group_codes(groups: NDArray[Any]) -> IntArray:
    """Return codes of the groups; refuse missing ones, and a single one, within which nothing is independent."""
    try:
        codes = pd.factorize(groups)[0]
    except TypeError as error:
        raise InputError(f"groups cannot be compared ({one_line(str(error))}); name each by a text.") from error
    if codes.min() < 0:
        raise InputError(f"{counted(int((codes < 0).sum()), 'question has', 'questions have')} no group; name one.")
    if codes.max() == 0:
        raise InputError("All questions are in one group, so that none is independent of the others; leave groups out.")
    return codes.astype(np.int64)


def _objects(values: Any) -> NDArray[Any]:
    """Return values as an array of objects; several answers that are all right are one object, a frozenset."""
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        try:
            found[place] = frozenset(value) if isinstance(value, (set, list)) else value
            hash(found[place])
        except TypeError as error:
            raise InputError(f"{shown(value, 60)} cannot be compared ({one_line(str(error))}); pass texts.") from error
    return found


def count_answers(table: AnswerTable, normalize: Normalize | None) -> CountedAnswers:
    """Return how often each answer was given to the questions whose truth is known, or to all if none is."""
    said = _comparable(table.answer, normalize)
    truth = None if table.truth is None else [_accepted(each, normalize) for each in table.truth]
    asked = np.arange(table.questions.size)
    if truth is not None:
        asked = np.array([place for place, accepted in enumerate(truth) if accepted], dtype=np.int64)
        if asked.size < 2:
            raise InputError(
                f"The truth of {counted(asked.size, 'question')} is known; at least 2 are needed, better some hundred. "
                "Without truth, leave it out: the agreement with infinitely many samples needs none."
            )
        _refuse_other_types(said, truth)
    words = _words(said, truth or [])
    codes = np.fromiter((-1 if word is None else words[word] for word in said), np.int32, len(said))
    if not (codes >= 0).any():
        raise InputError("No answer could be read: all are None or missing. Check how they are taken from the text.")
    place = np.full(table.questions.size, -1, dtype=np.int32)
    place[asked] = np.arange(asked.size)
    own = place[table.question]
    rights = _right_keys(truth, asked, words)
    return _counted(table, asked, own, codes, rights, _objects(list(words)), truth is not None)


def _counted(
    table: AnswerTable, asked: IntArray, own: AnyIntArray, codes: AnyIntArray, rights: IntArray, words: NDArray[Any],
    has_truth: bool,
) -> CountedAnswers:  # fmt: skip
    """Return the votes by question and column from the code of each answer; the keys of right ones are given."""
    kept = (own >= 0) & (codes >= 0)
    n_samples: IntArray = np.bincount(own[kept], minlength=asked.size)
    # A question of which no sample could be read has one answer, which is wrong and has no name.
    unread = (own >= 0) & (codes < 0) & (n_samples[np.maximum(own, 0)] == 0)
    question = np.concatenate([own[kept], own[unread]])
    code = np.concatenate([codes[kept], np.full(int(unread.sum()), words.size)])
    cell, distinct = pd.factorize(question.astype(np.int64) * (words.size + 1) + code, sort=True)
    given_times = np.bincount(cell)
    sums = given_times.astype(np.float64)
    squares = sums
    if table.weight is not None:
        weight = np.append(_above_zero(table.weight[kept], own[kept]), np.ones(int(unread.sum())))
        sums, squares = (np.bincount(cell, each).astype(np.float64) for each in (weight, weight**2))
    asked_of, said = distinct // (words.size + 1), distinct % (words.size + 1)
    is_right = np.isin(distinct, rights)
    total = np.bincount(asked_of, sums, asked.size)
    # Weighted votes are worth as many equal ones as have a mean of the same variance.
    worth = total / np.maximum(np.bincount(asked_of, squares, asked.size), NEGLIGIBLE)
    # Rounded, so that equal votes stay equal whatever the unit of their weights.
    sums = np.round(sums * worth[asked_of], 9)
    order = np.lexsort((-sums, is_right, asked_of))
    order = order[~is_right[order]]
    column = 1 + _place_among_equals(asked_of[order])
    counts = np.zeros((asked.size, int(column.max(initial=1)) + 1))
    names = np.full(counts.shape, None, dtype=object)
    named = _objects([*words, None])
    counts[asked_of[order], column], names[asked_of[order], column] = sums[order], named[said[order]]
    # Where several answers are right, any of them is, and their votes count together.
    np.add.at(counts[:, 0], asked_of[is_right], sums[is_right])
    # Of several the one with most votes has the name; they are one of the answers that are possible.
    names[:, 0] = _names_of_right(rights, asked_of[is_right], said[is_right], sums[is_right], words, asked.size)
    wrong = np.unique(said[~is_right])
    n_answers = max(wrong.size + bool(np.setdiff1d(said[is_right], wrong).size), 2)
    groups = None if table.groups is None else np.unique(table.groups[asked], return_inverse=True)[1].reshape(-1)
    given = np.maximum(n_samples, np.bincount(own[unread], minlength=asked.size))
    return CountedAnswers(
        table.questions[asked],
        AnswerVotes(counts, has_truth, n_answers, groups),
        names,
        given,
        np.bincount(asked_of[is_right], given_times[is_right], asked.size).astype(np.int64),
        int(((own >= 0) & (codes < 0)).sum()),
        float(counts.sum() / max(given.sum(), 1)),
    )


def _above_zero(weight: FloatArray, question: AnyIntArray) -> FloatArray:
    """Return weights, or equal ones where all those of a question are 0, which tell nothing of its answers."""
    total = np.bincount(question, weight)
    return np.where(total[question] > 0.0, weight, 1.0)


def _names_of_right(
    rights: IntArray, question: IntArray, said: IntArray, votes: FloatArray, words: NDArray[Any], n_questions: int
) -> NDArray[Any]:
    """Return a name of the right answer to each question: that with most votes, else the first by its text."""
    found = np.full(n_questions, None, dtype=object)
    accepted = sorted(rights.tolist(), key=lambda key: repr(words[key % (words.size + 1)]), reverse=True)
    for key in accepted:
        found[key // (words.size + 1)] = words[key % (words.size + 1)]
    for place in np.argsort(votes, kind="stable"):
        found[question[place]] = words[said[place]]
    return found


def _place_among_equals(question: IntArray) -> IntArray:
    """Return how many answers to the same question come before each, where those of a question are together."""
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    lengths = np.diff(np.append(starts, question.size))
    return np.asarray(np.arange(question.size) - np.repeat(starts, lengths))


def _comparable(said: NDArray[Any], normalize: Normalize | None) -> list[Any]:
    """Return answers in the form in which they are compared, None for what could not be read."""
    return [None if is_unread(answer) else _normalized(answer, normalize) for answer in said.tolist()]


def is_unread(answer: Any) -> bool:
    """Return whether an answer is missing, blank, or what evaluation tools write where none could be read."""
    if isinstance(answer, str):
        return answer.strip() in ("", UNREAD)
    return answer is None or answer is pd.NA or bool(np.ndim(answer) == 0 and answer != answer)


def _normalized(answer: Any, normalize: Normalize | None) -> Any:
    if normalize is None:
        return answer
    try:
        found = normalize(answer)
    except Exception as error:  # a user's function may raise anything
        raise InputError(
            f"normalize fails for the answer {shown(answer, 60)} ({type(error).__name__}: "
            f"{one_line(str(error))}). Let it return None for what cannot be read."
        ) from error
    return None if is_unread(found) else found


def _accepted(truth: Any, normalize: Normalize | None) -> list[Any]:
    """Return the answers that are right; of a set or a list any of them is. Empty where the truth is not known."""
    given = list(truth) if isinstance(truth, frozenset) else [truth]
    return [found for each in given if not is_unread(each) and (found := _normalized(each, normalize)) is not None]


def _words(said: list[Any], truth: list[list[Any]]) -> dict[Any, int]:
    """Return a code for each distinct answer, in the order in which they first appear."""
    words: dict[Any, int] = {}
    try:
        for word in [*said, *(each for accepted in truth for each in accepted)]:
            if word is not None:
                words.setdefault(word, len(words))
    except TypeError as error:
        raise InputError(
            f"answers cannot be compared ({one_line(str(error))}); make each a text, a number or a tuple, for example "
            "with normalize=str."
        ) from error
    return words


def _right_keys(truth: list[list[Any]] | None, asked: IntArray, words: dict[Any, int]) -> IntArray:
    """Return the keys of the right answers, the position of the question and the code in one number."""
    if truth is None:
        return np.zeros(0, dtype=np.int64)
    n_codes = len(words) + 1
    return np.array(
        [place * n_codes + words[each] for place, question in enumerate(asked) for each in truth[question]],
        dtype=np.int64,
    )


def _refuse_other_types(said: list[Any], truth: list[list[Any]]) -> None:
    """Refuse answers of which all are texts where no truth is one, or the other way round: none would be right."""
    kinds = [
        {isinstance(each, str) for each in said if each is not None},
        {isinstance(each, str) for accepted in truth for each in accepted},
    ]
    if len(kinds[0]) == len(kinds[1]) == 1 and kinds[0] != kinds[1]:
        named = ["texts" if True in kind else "not texts" for kind in kinds]
        raise InputError(
            f"The answers are {named[0]} and the true ones are {named[1]}, so that no answer would be right. Pass both "
            "in one form, for example with normalize=str."
        )
