"""Repeated answers to questions as they are given, a table, a mapping or an array, counted by question and answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.core.answer_shares import AnswerVotes
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    AnyIntArray,
    BoolArray,
    FloatArray,
    IntArray,
    as_weight,
    counted,
    one_line,
    shown,
)
from ens_plugin.errors import InputError

Normalize = Callable[[Any], Hashable]
# What lm-evaluation-harness writes for an answer that its filter did not find.
UNREAD = "[invalid]"
ROLES = ("question", "answer", "truth", "weight", "group")
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
    weight: FloatArray  # of each answer
    is_named: bool  # whether the questions have names of the user's, and not only an order
    is_long: bool  # whether it was given with a row for each answer
    truth: NDArray[Any] | None = None  # of each question; None or NaN where it is not known
    groups: IntArray | None = None  # of each question


@dataclass(frozen=True, eq=False)
class CountedAnswers:
    """How often each answer to each question was given."""

    questions: pd.Index[Any]
    votes: AnswerVotes
    names: NDArray[Any]  # the answer of each column of the votes; None where it has none
    n_samples: IntArray  # answers to each question that could be read; votes are not weighted here
    n_right: IntArray  # how many of them are right
    n_unread: int  # samples that could not be read
    votes_per_sample: float  # what a sample counts, where votes have weights: equal ones count 1


def read_answers(answers: Any, truth: Any = None, weight: Any = None, groups: Any = None) -> AnswerTable:
    """Return answers in one form, with the truth, the weights and the groups in the order of their questions."""
    is_long = isinstance(answers, pd.DataFrame) and {"question", "answer"} <= {*answers.columns}
    if is_long:
        _refuse_unnamed(answers)
        given = {"truth": truth, "weight": weight, "group": groups}
        truth, weight, groups = (answers.get(name) if each is None else each for name, each in given.items())
        question, questions = pd.factorize(answers["question"])
        said = answers["answer"].to_numpy(dtype=object)
    else:
        questions, rows = _rows(answers)
        question = np.repeat(np.arange(len(rows)), [*map(len, rows)])
        said = np.fromiter(chain.from_iterable(rows), object, question.size)
    if not said.size:
        raise InputError(f"There are no answers. {FORMS}.")
    questions = pd.Index(questions)
    if not questions.is_unique:
        twice = questions[questions.duplicated()][0]
        raise InputError(f"Two questions are called {shown(twice, 40)}; give each a name of its own.")
    if weight is not None and not is_long:
        weight = _weights_of_rows(weight, questions, question)
    weights = as_weight(weight, said.size)
    # Relative to the largest weight, so that their unit does not matter; equal ones take no memory.
    weights = weights if weight is None else weights / weights.max()
    is_named = isinstance(answers, (Mapping, pd.DataFrame))
    table = AnswerTable(questions, question, said, weights, is_named, is_long)
    return replace(
        table,
        truth=None if truth is None else _by_question(truth, table, "truth"),
        groups=None if groups is None else _group_codes(_by_question(groups, table, "groups")),
    )


def _refuse_unnamed(answers: pd.DataFrame) -> None:
    """Refuse a table with a row for each answer in which columns or questions have no name of their own."""
    twice = answers.columns[answers.columns.duplicated()]
    if twice.size:
        raise InputError(f"The table has two columns {shown(twice[0], 40)}; keep one.")
    n_missing = int(answers["question"].isna().sum())
    if n_missing:
        rows = counted(n_missing, "row has", "rows have")
        raise InputError(f"{rows} no question; name the question of each answer.")


def _rows(answers: Any) -> tuple[pd.Index[Any], list[Any]]:
    """Return the questions and the answers to each, of a mapping or of one row for each question."""
    if isinstance(answers, Mapping):
        questions, rows = pd.Index(list(answers), tupleize_cols=False), list(answers.values())
    elif isinstance(answers, pd.DataFrame):
        reserved = [name for name in answers.columns if name in ROLES]
        if reserved:
            raise InputError(
                f"The table has the column {reserved[0]!r}, and so is no table of one column for each sample, but it "
                f"lacks the column question or answer. {FORMS}."
            )
        questions, rows = answers.index, list(answers.to_numpy(dtype=object))
    elif _is_list(answers):
        questions, rows = pd.RangeIndex(len(answers)), list(answers)
    else:
        raise InputError(f"answers is {shown(answers, 60)}. {FORMS}.")
    for question, row in zip(questions, rows, strict=True):
        if not _is_list(row):
            asked = shown(question, 40)
            raise InputError(f"The answers to question {asked} are {shown(row, 60)}, which is no list. {FORMS}.")
    return questions, rows


def _is_list(values: Any) -> bool:
    is_sequence = isinstance(values, (Sequence, pd.Series, pd.Index)) and not isinstance(values, (str, bytes))
    return is_sequence or (isinstance(values, np.ndarray) and values.ndim > 0)


def _weights_of_rows(weight: Any, questions: pd.Index[Any], question: IntArray) -> NDArray[Any]:
    """Return weights in the form of rows of answers one below the other."""
    lengths = np.bincount(question, minlength=questions.size)
    if isinstance(weight, Mapping):
        missing = [question for question in questions if question not in weight]
        if missing:
            raise InputError(f"weight has none for question {shown(missing[0], 40)}; give one for each of its answers.")
        weight = [weight[question] for question in questions]
    rows = list(weight.to_numpy()) if isinstance(weight, pd.DataFrame) else list(weight) if _is_list(weight) else []
    if len(rows) != lengths.size or any(np.size(row) != length for row, length in zip(rows, lengths, strict=True)):
        raise InputError("weight must have the form of answers: one weight for each sample of each question.")
    return np.concatenate([*map(np.ravel, rows)])


def _by_question(values: Any, table: AnswerTable, name: str) -> NDArray[Any]:
    """Return a value for each question: by its name, of its rows in a long table, or in the order of the questions."""
    n_questions, n_answers, names = table.questions.size, table.question.size, None
    if isinstance(values, Mapping):
        names, values = pd.Index(list(values), tupleize_cols=False), list(values.values())
    if not _is_list(values):
        raise InputError(f"{name} is {shown(values, 60)}; pass a list of one for each question, or a mapping.")
    if isinstance(values, pd.Series) and table.is_named and not (table.is_long and len(values) == n_answers):
        names = values.index
    found = _objects(values)
    if names is not None:
        return _by_name(names, found, table, name)
    if found.size == n_questions:
        return found
    if found.size != n_answers:
        raise InputError(
            f"{name} has {counted(found.size, 'value')}, and there are {counted(n_questions, 'question')}; pass one "
            "for each, or a mapping from question to value."
        )
    # Of the rows of a long table, each question has the value of its first.
    first = np.unique(table.question, return_index=True)[1]
    codes = pd.factorize(found)[0]
    differs = codes != codes[first][table.question]
    if differs.any():
        question = table.questions[table.question[int(np.argmax(differs))]]
        raise InputError(f"{name} has two values for question {shown(question, 40)}; give one for each question.")
    return found[first]


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


def _group_codes(groups: NDArray[Any]) -> IntArray:
    """Return codes of the groups; refuse missing ones, and a single one, within which nothing is independent."""
    codes = pd.factorize(groups)[0]
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
    said = [_comparable(answer, normalize) for answer in table.answer.tolist()]
    truth = [_accepted(each, normalize) for each in ([] if table.truth is None else table.truth)]
    asked = np.arange(table.questions.size)
    if table.truth is not None:
        _refuse_truth(said, truth)
        asked = np.flatnonzero([*map(bool, truth)])
    empty = np.setdiff1d(asked, table.question)
    if empty.size:
        name = shown(table.questions[empty[0]], 40)
        raise InputError(f"Question {name} has no samples; leave it out, or give None for each without an answer.")
    words = _words(chain(said, *truth))
    # What could not be read has the code after those of all words.
    code = np.fromiter((words.get(word, len(words)) for word in said), np.int32, len(said))
    if code.min() == len(words):
        raise InputError("No answer could be read: all are None or missing. Check how they are taken from the text.")
    rights = [(question, words[word]) for question, accepted in enumerate(truth) for word in accepted]
    return _counted(table, asked, code, rights, [*words, None])


def _counted(
    table: AnswerTable, asked: IntArray, code: AnyIntArray, rights: list[tuple[int, int]], words: list[Any]
) -> CountedAnswers:
    """Return the votes by question and column from the code of each answer, and the pairs of question and code."""
    n_codes, n_questions = len(words), asked.size
    place = np.full(table.questions.size, -1)
    place[asked] = np.arange(n_questions)
    own, is_read = place[table.question], code < n_codes - 1
    n_read = np.bincount(own[(own >= 0) & is_read], minlength=n_questions)
    # A question of which no sample could be read has one answer, which is wrong and has no name.
    kept = (own >= 0) & (is_read | (n_read[own] == 0))
    n_unread = int(((own >= 0) & ~is_read).sum())
    own, code, weight = own[kept], code[kept], table.weight[kept]
    # Weights that are all 0 tell nothing of the answers to a question.
    weight = np.where(is_read[kept] & (np.bincount(own, weight)[own] > 0.0), weight, 1.0)
    cell, key = pd.factorize(own * n_codes + code, sort=True)
    question, word = np.divmod(key, n_codes)
    n_given, sums, squares = (np.bincount(cell, each) for each in (None, weight, weight**2))
    total, square = (np.bincount(question, each, n_questions) for each in (sums, squares))
    # Weighted votes are worth as many equal ones as have a mean of the same variance.
    worth = total / np.maximum(square, NEGLIGIBLE)
    # Rounded, so that equal votes stay equal whatever the unit of their weights.
    votes = np.round(sums * worth[question], 9)
    is_right = np.isin(key, [place[at] * n_codes + right for at, right in rights])
    counts, names = _in_columns(question, votes, is_right, _objects(words)[word])
    wrong = np.unique(word[~is_right])
    # Several right answers are one of those that are possible.
    n_answers = max(wrong.size + bool(np.setdiff1d(word[is_right], wrong).size), 2)
    groups = None if table.groups is None else np.unique(table.groups[asked], return_inverse=True)[1].reshape(-1)
    n_samples = np.bincount(own, minlength=n_questions)
    return CountedAnswers(
        questions=table.questions[asked],
        votes=AnswerVotes(counts, table.truth is not None, n_answers, groups),
        names=names,
        n_samples=n_samples,
        n_right=np.bincount(question[is_right], n_given[is_right], n_questions).astype(np.int64),
        n_unread=n_unread,
        votes_per_sample=float(counts.sum() / max(n_samples.sum(), 1)),
    )


def _in_columns(
    question: IntArray, votes: FloatArray, is_right: BoolArray, names: NDArray[Any]
) -> tuple[FloatArray, NDArray[Any]]:
    """Return votes by question and column, the right answers in the first, and names of the columns."""
    wrong = np.lexsort((-votes, question))
    wrong = wrong[~is_right[wrong]]
    column = np.zeros(question.size, dtype=np.int64)
    column[wrong] = 1 + pd.Series(question[wrong]).groupby(question[wrong]).cumcount()
    counts = np.zeros((int(question.max()) + 1, max(int(column.max()), 1) + 1))
    # Where several answers are right, any of them is, and their votes count together.
    np.add.at(counts, (question, column), votes)
    # Of several the one with most votes has the name.
    cell, order = question * counts.shape[1] + column, np.argsort(votes, kind="stable")[::-1]
    named, first = np.unique(cell[order], return_index=True)
    of_cells = np.full(counts.size, None, dtype=object)
    of_cells[named] = names[order[first]]
    return counts, of_cells.reshape(counts.shape)


def is_unread(answer: Any) -> bool:
    """Return whether an answer is missing, blank, or what evaluation tools write where none could be read."""
    if isinstance(answer, str):
        return answer.strip() in ("", UNREAD)
    return answer is None or answer is pd.NA or bool(np.ndim(answer) == 0 and answer != answer)


def _comparable(answer: Any, normalize: Normalize | None) -> Any:
    """Return an answer in the form in which it is compared, None for what could not be read."""
    if is_unread(answer):
        return None
    try:
        found = answer if normalize is None else normalize(answer)
    except Exception as error:  # a user's function may raise anything
        raise InputError(
            f"normalize fails for the answer {shown(answer, 60)} ({type(error).__name__}: "
            f"{one_line(str(error))}). Let it return None for what cannot be read."
        ) from error
    return None if is_unread(found) else found


def _accepted(truth: Any, normalize: Normalize | None) -> list[Any]:
    """Return the answers that are right; of a set or a list any of them is. Empty where the truth is not known."""
    found = (_comparable(each, normalize) for each in (truth if isinstance(truth, frozenset) else [truth]))
    return [each for each in found if each is not None]


def _words(said: Iterable[Any]) -> dict[Any, int]:
    """Return a code for each distinct answer, in the order in which they first appear."""
    words: dict[Any, int] = {}
    try:
        for word in said:
            if word is not None:
                words.setdefault(word, len(words))
    except TypeError as error:
        raise InputError(
            f"answers cannot be compared ({one_line(str(error))}); make each a text, a number or a tuple, for example "
            "with normalize=str."
        ) from error
    return words


def _refuse_truth(said: list[Any], truth: list[list[Any]]) -> None:
    """Refuse true answers of less than two questions, and texts beside what is none, of which none would be right."""
    n_known = sum(map(bool, truth))
    if n_known < 2:
        raise InputError(
            f"The truth of {counted(n_known, 'question')} is known; at least 2 are needed, better some hundred. "
            "Without truth, leave it out: the agreement with infinitely many samples needs none."
        )
    are_texts = [{isinstance(each, str) for each in part if each is not None} for part in (said, chain(*truth))]
    if are_texts in ([{True}, {False}], [{False}, {True}]):
        named = ["texts" if True in kind else "not texts" for kind in are_texts]
        raise InputError(
            f"The answers are {named[0]} and the true ones are {named[1]}, so that no answer would be right. Pass both "
            "in one form, for example with normalize=str."
        )
