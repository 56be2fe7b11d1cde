"""The three answers: more members or not, how good the ensemble is, and whether to trust that."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport, SizeRecommendation
from ens_plugin.findings import CHECKS, finding
from ens_plugin.report.answers import answer_lines, headline, markdown_answers, markdown_summary, three_answers
from ens_plugin.report.result import with_findings
from ens_plugin.report.text import detail, gain_texts, interval_in_measure, measured_text, member_noun
from tests import reports
from tests.reports import with_doubts

REPORTS = reports.all_reports()
CLASSIFICATION, REGRESSION, SCORE = (REPORTS[name] for name in ("classification", "regression", "score"))
LABELS, ERROR, PROBABILITY = CLASSIFICATION.criteria


def answers(report: EnsembleReport) -> dict[str, str]:
    return {each.question: each.text for each in three_answers(report)}


def more(report: EnsembleReport) -> str:
    first = three_answers(report)[0]
    assert re.fullmatch(r"More \w+s\?", first.question)
    return first.text


def sized(found: SizeRecommendation, n_members: int, **changes: Any) -> EnsembleReport:
    """The classification with another number of members, sized in one respect alone."""
    wanted = replace(found, is_required=True, loss=found.loss_at(n_members), **changes)
    agreement = 1.0 - LABELS.loss_at(n_members)
    wanted = replace(wanted, agreement=agreement)
    report = replace(CLASSIFICATION, n_members=n_members, mean_oob_members=0.368 * n_members)
    return replace(report, recommendation=wanted, criteria=(wanted,))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (CLASSIFICATION, "No. With more, 0.5 % of the labels would change and no accuracy is gained."),
        (
            sized(ERROR, 41),
            "No. With more, 1.2 % of the labels would change and 95.9 % would be right instead of 95.8 %.",
        ),
        (
            sized(ERROR, 200),
            "No, fewer: 29 give 95.7 % instead of 95.9 % and save 86 % of size and time: truncate(model, 29).",
        ),
        (
            sized(PROBABILITY, 500),
            "No, fewer: 119 give 95.9 % as well and save 76 % of size and time: truncate(model, 119).",
        ),
        (REPORTS["perfect"], "No, fewer: 1 gives 100.0 % as well and saves 96 % of size and time: truncate(model, 1)."),
        (sized(ERROR, 10), "Yes, 29 in total: 95.7 % right instead of 95.4 %; 2.4 % of the labels would change."),
        (
            sized(PROBABILITY, 30),
            "Yes, 119 in total: the probabilities get better (Brier score 4.1 % lower), and 95.9 % are right "
            "instead of 95.7 %.",
        ),
        (
            sized(PROBABILITY, 90),
            "Yes, 119 in total: the probabilities get better (Brier score 0.5 % lower), and 95.9 % are right as now.",
        ),
        (sized(ERROR, 3), "Yes, 29 in total: 3 give 94.1 %, 9 give 95.3 %, 29 give 95.7 %; none gives over 95.9 %."),
        (sized(ERROR, 1), "Yes, 29 in total: 1 gives 91.7 %, 5 give 94.8 %, 29 give 95.7 %; none gives over 95.9 %."),
        (
            REPORTS["capped"],
            "Yes, more than 20001: 100 give 65.6 %, 1414 give 66.3 %, 20001 give 66.5 %; none gives over 66.5 %.",
        ),
        (sized(LABELS, 40), "Yes, 59 in total: 1.2 % of the labels would change with more, and 1 % may."),
        (
            sized(LABELS, 200),
            "No, fewer: 59 give 95.8 % instead of 95.9 % and save 70 % of size and time: truncate(model, 59).",
        ),
        (REGRESSION, "Yes, 131 in total: off by 56.1 instead of 56.2."),
        (
            replace(REGRESSION, n_members=20),
            "Yes, 131 in total: 20 give 57.7, 51 give 56.6, 131 give 56.1; infinitely many give 55.9.",
        ),
        (
            SCORE,
            "No, fewer: 31 give roc_auc 0.952 instead of 0.956 and save 84 % of size and time: truncate(model, 31).",
        ),
        (replace(CLASSIFICATION, n_rows=29), "That cannot be told: 29 rows are too few."),
    ],
)  # fmt: skip
def test_the_first_answer(report: EnsembleReport, words: str) -> None:
    assert more(report) == words


def test_a_metric_has_its_own_name() -> None:
    few = replace(SCORE, n_members=31, recommendation=replace(SCORE.recommendation, loss=0.0049), criteria=())
    assert more(few) == "No. With more, roc_auc would be 0.957 instead of 0.952."
    fewer = replace(SCORE, n_members=10, recommendation=replace(SCORE.recommendation, loss=0.015), criteria=())
    assert more(fewer) == "Yes, 31 in total: roc_auc 0.952 instead of 0.942."
    assert more(replace(few, n_members=20_001)).startswith("No, fewer: 31 give roc_auc 0.952 instead of 0.957")


def test_accuracy_that_falls_with_the_size_has_no_highest_value_at_infinity() -> None:
    rising = REPORTS["rising"]
    by_labels = replace(rising.criteria[0], is_required=True)
    report = replace(rising, recommendation=by_labels, criteria=(by_labels,))
    assert more(report) == (
        "Yes, 8507 in total: 51 give 46.9 %, 659 give 45.9 %, 8507 give 45.9 %; infinitely many give 45.8 %."
    )
    enough = replace(rising, recommendation=rising.criteria[1], criteria=())
    assert "fewer: 1 gives 49.4 % instead of 46.9 %" in more(enough)
    assert "and no accuracy is gained" in more(replace(enough, recommendation=replace(rising.criteria[1], size=51)))


def test_a_smaller_odd_size_is_a_cut_where_votes_of_the_even_one_tie() -> None:
    tied = replace(ERROR, is_required=True, size=45, loss=0.01)
    report = replace(CLASSIFICATION, n_members=50, recommendation=tied, criteria=(tied,))
    assert more(report).startswith("No, fewer: 45 give 95.8 % as well and save 10 % of size and time")
    same = replace(tied, size=50)
    assert more(replace(report, recommendation=same, criteria=(same,))).startswith("No. With more, ")


def test_a_loss_that_is_not_known_gives_no_answer_and_no_control_characters() -> None:
    unknown = replace(
        ERROR, is_required=True, size=None, loss=math.nan, reason="Of 200 members\x1b[31m nothing is known."
    )
    report = replace(CLASSIFICATION, recommendation=unknown, criteria=(unknown,))
    assert more(report).startswith("That cannot be told. Of 200 trees")
    assert "\x1b" not in report.summary()


def test_a_curve_that_begins_above_the_present_size() -> None:
    curve = CLASSIFICATION.error_curve
    kept = curve.sizes >= 11
    late = replace(
        curve, sizes=curve.sizes[kept], error=curve.error[kept], lower=curve.lower[kept], upper=curve.upper[kept]
    )
    report = replace(sized(ERROR, 3), error_curve=late)
    assert answers(report)["How good?"] == "That is known from 11 trees on."
    assert "11 trees (here the curve begins)" in report.summary()
    assert "nan" not in report.summary()


GROUPED, ALONE, UNKNOWN = (
    replace(CLASSIFICATION, basis=replace(CLASSIFICATION.basis, **changes))
    for changes in ({"n_groups": 57}, {"n_groups": 569}, {"baseline_error": math.nan})
)
YES = "Yes, if each {} is another case: 569 rows{}, about {} each that never saw it; nothing suspicious found."
NO = "No: 29 rows are too few; the interval shows how little they tell."
CONSTANT = replace(REGRESSION, basis=replace(REGRESSION.basis, baseline_error=0.0))


@pytest.mark.parametrize(
    ("report", "question", "words"),
    [
        (CLASSIFICATION, "How good?", "95.9 % right on new rows (93.9 to 97.2). Always the commonest label: 62.7 %."),
        (UNKNOWN, "How good?", "95.9 % right on new rows (93.9 to 97.2)."),
        (REGRESSION, "How good?", "Off by 56.2 as a rule (RMSE, 52.4 to 59.8); always the mean: 77.0; R2 0.47."),
        (CONSTANT, "How good?", "Off by 56.2 as a rule (RMSE, 52.4 to 59.8)."),
        (SCORE, "How good?", "roc_auc 0.956 on new rows (0.936 to 0.976)."),
        (CLASSIFICATION, "Trust it?", YES.format("row", "", "74 trees")),
        (ALONE, "Trust it?", YES.format("row", "", "74 trees")),
        (GROUPED, "Trust it?", YES.format("group", " of 57 groups", "74 trees")),
        (replace(sized(ERROR, 1), mean_oob_members=1.2), "Trust it?", YES.format("row", "", "1 tree")),
        (
            REPORTS["custom_metric"], "Trust it?",
            "Yes, if each row is another case and no tree was trained on these rows: 569 rows, all 200 trees each; "
            "nothing suspicious found.",
        ),
        (replace(CLASSIFICATION, n_rows=29), "Trust it?", NO),
    ],
)  # fmt: skip
def test_the_other_answers(report: EnsembleReport, question: str, words: str) -> None:
    assert answers(report)[question] == words


ROUNDED = [
    (0.03649, 0.03651, ("96.4 %", "96.4 %")), (0.0360, 0.0350, ("96.4 %", "96.5 %")),
    (0.0360, 0.03551, ("96.4 %", "96.4 %")), (0.0031, 0.0029, ("99.69 %", "99.71 %")), (0.0, 0.0, ("100.0 %",) * 2),
]  # fmt: skip


@pytest.mark.parametrize(("here", "there", "texts"), ROUNDED)
def test_values_next_to_a_limit_of_rounding_are_not_told_apart(
    here: float, there: float, texts: tuple[str, str]
) -> None:
    error = np.array([here, there])
    curve = replace(CLASSIFICATION.error_curve, sizes=np.array([1, 3]), error=error, lower=error, upper=error)
    assert gain_texts(replace(CLASSIFICATION, error_curve=curve), 1, 3) == texts


MEASURES = [
    ("0-1 error", 0.959, "95.9 %"), ("0-1 error", 0.9971, "99.71 %"), ("0-1 error", 1.0, "100.0 %"),
    ("0-1 error", 0.0, "0.0 %"), ("mean squared error", 56.22, "56.2"), ("mean squared error", 0.0, "0"),
    ("roc_auc", 0.99, "0.990"), ("log_loss", math.inf, "inf"), ("roc_auc", math.nan, "not estimated"),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "value", "text"), MEASURES)
def test_a_measure_as_text(metric: str, value: float, text: str) -> None:
    assert measured_text(metric, value) == text


def test_an_interval_in_the_measure_has_its_lower_end_first() -> None:
    assert interval_in_measure("0-1 error", (0.02, 0.1)) == "90.0 to 98.0"
    assert interval_in_measure("mean squared error", (4.0, 9.0)) == "2.00 to 3.00"
    assert interval_in_measure("mean squared error", (-1e-9, 0.0)) == "0 to 0"
    assert interval_in_measure("roc_auc", (math.nan, 1.0)) == "not estimated"


@pytest.mark.parametrize("code", [code for code, check in CHECKS.items() if check.condition])
def test_a_note_that_trust_depends_on_is_a_condition(code: str) -> None:
    noted = with_findings(CLASSIFICATION, [finding(code, "A sentence.")] * 2)
    assert answers(noted)["Trust it?"].startswith(
        f"Yes, if each row is another case and {CHECKS[code].condition}: 569 rows"
    )
    assert "A sentence." not in noted.summary()
    assert f"Note: A sentence. [{code}]" in noted.details()


@pytest.mark.parametrize("code", [code for code, check in CHECKS.items() if check.kind == "doubt"])
def test_a_doubt_is_the_only_answer(code: str) -> None:
    doubted = with_findings(CLASSIFICATION, [finding(code, "A sentence."), finding("few-rows", "A note.")])
    (answer,) = three_answers(doubted)
    own = code == "of-adapter"
    words = "A sentence." if own else f"{CHECKS[code].finds} {CHECKS[code].remedy}"
    assert answer == ("Trust it?", f"Do not use these figures. {words} [{code}]")
    assert headline(doubted) == "Do not use these figures."
    for text in (doubted.summary(), markdown_summary(doubted), markdown_answers(doubted)):
        assert "%" not in text
        assert "|" not in text
    assert f"Doubt: A sentence. [{code}]" in doubted.details()


@pytest.mark.parametrize("name", REPORTS)
def test_answers_fit_a_terminal_and_have_one_column(name: str) -> None:
    report = REPORTS[name]
    for shown in (report, with_doubts(report, "many " * 300), replace(report, n_rows=3)):
        lines = answer_lines(shown)
        assert max(map(len, lines)) <= 80
        assert " ".join(" ".join(lines).split()) == " ".join(
            word for each in three_answers(shown) for word in f"{each.question} {each.text}".split()
        )


@pytest.mark.parametrize("name", REPORTS)
def test_answers_in_markdown_are_lines_without_markup(name: str) -> None:
    first, *lines = markdown_answers(REPORTS[name]).split("  \n")
    assert first.startswith("**")
    assert [line[: line.index("?**") + 3] for line in lines] == [
        f"**{each.question}**" for each in three_answers(REPORTS[name])
    ]
    for line in (first, *lines):
        assert not set("<>`*_[]\\$~\n") & set(line.replace("**", ""))


@pytest.mark.parametrize(
    ("model", "noun"),
    [
        ("RandomForestClassifier", "tree"), ("ExtraTreesRegressor", "tree"), ("XGBRFClassifier", "tree"),
        ("Booster", "tree"), ("LGBMClassifier", "tree"), ("BaggingClassifier", "model"), ("CustomEnsemble", "model"),
        ("Mystery", "member"),
    ],
)  # fmt: skip
def test_members_are_called_what_they_are(model: str, noun: str) -> None:
    report = replace(CLASSIFICATION, model=model)
    assert member_noun(report) == noun
    assert next(iter(answers(report))) == f"More {noun}s?"


@pytest.mark.parametrize("name", REPORTS)
def test_groups_of_trees_are_called_so_on_every_surface(name: str) -> None:
    """A report counted groups as trees, so that its size was read as that of a forest of so many trees."""
    report = replace(REPORTS[name], model="RegressionForest")
    grouped = with_findings(report, (finding("grouped-trees", "Members are groups.", n_trees=12),))
    trees, groups = texts_of(report), texts_of(grouped)
    assert re.search(r"\btrees?\b", trees, re.IGNORECASE)
    assert "groups of 12 trees" in groups
    assert not re.search(r"\btrees?\b", re.sub(r"groups? of 12 trees\b", "", groups), re.IGNORECASE)


def texts_of(report: Any) -> str:
    """Return a report as text and as a page, each line in one."""
    texts = [str(report), "\n".join(answer_lines(report)), markdown_answers(report), detail(report), report.to_html()]
    return " ".join(" ".join(texts).replace("grouped-trees", "").split()).replace("Groups", "groups")


def test_models_of_a_real_analysis_are_called_models_and_trees() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    for model, noun in ((BaggingClassifier(n_estimators=60, random_state=0), "models"),
                        (RandomForestClassifier(60, random_state=0), "trees")):  # fmt: skip
        assert f"60 {noun} (this model)" in ens_plugin.analyze(model.fit(X, y), X, y).summary()
