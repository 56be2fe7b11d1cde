"""Repeated answers to questions as they are given: a table, a mapping or an array, with a code for each answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.custom import MISSING
from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray, as_numbers, counted, one_line, shown
from ens_plugin.errors import InputError

Normalize = Callable[[Any], Hashable]
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


@dataclass(frozen=True, eq=False)
class CodedAnswers:
    """Answers as codes, which mean something else for each question."""

    questions: pd.Index[Any]
    codes: IntArray  # shape (n_samples, n_questions); -1 where a question has fewer samples
    truth: IntArray | None  # code of each question's true answer, -1 where it is not known
    weight: FloatArray | None  # shape of the codes
    groups: IntArray | None  # of each question
    names: NDArray[Any]  # shape (n_questions, n_codes): the answer of each code; None where there are fewer

    @property
    def n_samples(self) -> IntArray:
        """The number of answers to each question, shape (n_questions,)."""
        return np.asarray((self.codes != MISSING).sum(axis=0))

    @property
    def right(self) -> IntArray:
        """The codes of the true answers, where they are given."""
        assert self.truth is not None
        return self.truth

    def take(self, chosen: NDArray[np.intp]) -> CodedAnswers:
        """Return some of the questions."""
        return CodedAnswers(
            self.questions[chosen],
            self.codes[:, chosen],
            None if self.truth is None else self.truth[chosen],
            None if self.weight is None else self.weight[:, chosen],
            None if self.groups is None else self.groups[chosen],
            self.names[chosen],
        )

    def recoded(self, rng: np.random.Generator) -> CodedAnswers:
        """Return the same answers with other codes, in random order; the names are left out."""
        question = np.arange(self.questions.size)
        known = question[:0] if self.truth is None else np.flatnonzero(self.truth >= 0)
        own = self.codes[0, :0] if self.truth is None else self.truth[known]
        order = _random_orders(self.names.shape, known, own, rng)
        codes = np.where(self.codes == MISSING, MISSING, order[question, self.codes])
        truth = None if self.truth is None else np.where(self.truth == MISSING, MISSING, order[question, self.truth])
        return replace(self, codes=codes, truth=truth, names=np.full_like(self.names, None))


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
    return AnswerTable(pd.Index(questions), codes.astype(np.int64), said, values, None, None, is_named=True)


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
    if isinstance(values, pd.Series) and table.is_named and found.size != n_answers:
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
    found = np.empty(len(values), dtype=object)
    found[:] = list(values)
    return found


def code_answers(
    table: AnswerTable, normalize: Normalize | None, *, ignores_unparsed: bool, random_state: int | None
) -> CodedAnswers:
    """Return answers with codes in random order for each question, so that no code wins ties more often than others."""
    words, answers, truth = _factorized(table, normalize)
    _refuse_other_types(words, answers, truth)
    if not ignores_unparsed:
        # What counts as an answer of its own where no answer could be read.
        words, answers = np.append(words, "(no answer)"), np.where(answers < 0, words.size, answers)
    kept, known = np.flatnonzero(answers >= 0), np.flatnonzero(truth >= 0)
    if not kept.size or ((answers[kept] == words.size - 1).all() and not ignores_unparsed):
        raise InputError("No answer could be read: all are None or missing. Check how they are taken from the text.")
    n_questions, question = table.questions.size, table.question[kept]
    # The place of each answer among the distinct ones to each question, and the question and the word of these.
    place, keys = pd.factorize(np.append(question, known) * words.size + np.append(answers[kept], truth[known]))
    place, asked, said = place.astype(np.int32), keys // words.size, keys % words.size
    code, n_codes = _random_codes(asked, place[kept.size :], np.random.default_rng(random_state))
    names = np.full((n_questions, n_codes), None, dtype=object)
    names[asked, code] = words[said]
    cell = _place_among_equals(question), question
    shape = (int(cell[0].max()) + 1, n_questions)
    return CodedAnswers(
        table.questions,
        _filled(shape, MISSING, cell, code[place[: kept.size]]),
        None if table.truth is None else _filled((n_questions,), MISSING, known, code[place[kept.size :]]),
        None if table.weight is None else _filled(shape, 0.0, cell, table.weight[kept]),
        table.groups,
        names,
    )


def _filled(shape: tuple[int, ...], empty: float, cell: Any, values: NDArray[Any]) -> NDArray[Any]:
    found = np.full(shape, empty, dtype=values.dtype)
    found[cell] = values
    return found


def _factorized(table: AnswerTable, normalize: Normalize | None) -> tuple[NDArray[Any], IntArray, IntArray]:
    """Return the distinct answers, the position among them of each answer, and that of each question's true one."""
    n_answers = table.answer.size
    said = table.answer if table.truth is None else np.concatenate([table.answer, table.truth])
    values = said if normalize is None else _normalized(said, normalize)
    try:
        codes, words = pd.factorize(values)
    except TypeError as error:
        raise InputError(
            f"answers cannot be compared ({one_line(str(error))}); make each a text, a number or a tuple, for example "
            "with normalize=str."
        ) from error
    codes = codes.astype(np.int32)
    return np.asarray(words, dtype=object), codes[:n_answers], codes[n_answers:]


def _refuse_other_types(words: NDArray[Any], answers: IntArray, truth: IntArray) -> None:
    """Refuse answers of which all are texts where no truth is one, or the other way round: none would be right."""
    kinds = [{isinstance(words[code], str) for code in np.unique(codes[codes >= 0])} for codes in (answers, truth)]
    if kinds[0] == {not is_text for is_text in kinds[1]} and len(kinds[1]) == 1:
        named = ["texts" if True in kind else "not texts" for kind in kinds]
        raise InputError(
            f"The answers are {named[0]} and the true ones are {named[1]}, so that no answer would be right. Pass both "
            "in one form, for example with normalize=str."
        )


def _normalized(said: NDArray[Any], normalize: Normalize) -> NDArray[Any]:
    found = np.empty(said.size, dtype=object)
    for place, answer in enumerate(said):
        try:
            found[place] = None if answer is None or answer is pd.NA or answer != answer else normalize(answer)
        except Exception as error:  # a user's function may raise anything
            raise InputError(
                f"normalize fails for the answer {shown(answer, 60)} ({type(error).__name__}: "
                f"{one_line(str(error))}). Let it return None for what cannot be read."
            ) from error
    return found


def _random_codes(asked: AnyIntArray, true: AnyIntArray, rng: np.random.Generator) -> tuple[AnyIntArray, int]:
    """Return codes of the distinct answers in random order, each equally often of a `true` one, and their number."""
    local = _place_among_equals(asked)
    n_codes = max(int(local.max()) + 1, 2)
    order = _random_orders((int(asked.max()) + 1, n_codes), asked[true], local[true], rng)
    return order[asked, local], n_codes


def _random_orders(
    shape: tuple[int, ...], question: AnyIntArray, own: AnyIntArray, rng: np.random.Generator
) -> AnyIntArray:
    """Return random orders of codes, in which true answers, now of the codes `own`, have each code equally often."""
    order = np.argsort(rng.random(shape), axis=1).astype(np.int32)
    wanted = rng.permutation(np.arange(question.size) % shape[1])
    other = np.argmax(order[question] == wanted[:, None], axis=1)
    order[question, other] = order[question, own]
    order[question, own] = wanted
    return order


def _place_among_equals(question: AnyIntArray) -> AnyIntArray:
    """Return how many answers to the same question come before each."""
    order = np.argsort(question, kind="stable")
    counts = np.bincount(question)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(question.size, dtype=np.int32)
    place[order] = np.arange(question.size) - first
    return place
