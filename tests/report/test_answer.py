"""The verdict in plain words: enough or not, for what, and what a size would change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.report.answer import _measured, headline, price_sentence, verdict
from ens_plugin.report.result import LabelBasis
from ens_plugin.report.text import member_noun
from tests import reports
from tests.reports import with_doubts

CLASSIFICATION = reports.all_reports()["classification"]
REGRESSION = reports.all_reports()["regression"]
LABELS = "for 99 % of the labels"


def of_labels(n_members: int, size: int | None, interval: tuple[int, int | None]) -> EnsembleReport:
    recommendation = replace(CLASSIFICATION.recommendation, size=size, interval=interval)
    return replace(CLASSIFICATION, n_members=n_members, recommendation=recommendation)


@pytest.mark.parametrize(
    ("n_members", "size", "interval", "words", "price"),
    [
        (10, 59, (29, 119), "10 trees are too few {}: about 59 are needed.", "95.4 % with 10, 95.8 % with 59."),
        (40, 59, (29, 119), "40 trees are about enough {}: 59 would be.", "95.8 % with 40 and with 59."),
        (59, 59, (29, 119), "59 trees are just enough {}.", "95.9 % with infinitely many."),
        (60, 59, (29, 119), "60 trees are probably enough {}: about 59 are needed.", "95.8 % with 60 and with 59."),
        (500, 59, (29, None), "500 trees are probably enough {}: about 59 are needed.", "95.8 % with 59."),
        (119, 59, (29, 119), "119 trees are enough {}, and so are 59.", "95.9 % with 119 and with 59."),
        (200, 59, (29, 119), "200 trees are far more than needed {}: 59 are enough.", "95.8 % with 59."),
        (10, None, (20_001, None), "10 trees are too few: no size up to 20001 is enough {}.", "with infinitely many."),
        (10, None, (29, None), "10 trees are too few {}: at least 29 are needed.", "with infinitely many."),
        (40, None, (29, 150), "it cannot be told from these rows whether 40 trees are enough {}: 29 to 150 may", "."),
        (150, None, (29, 150), "150 trees are enough {}: at most 150 are needed.", "infinitely many."),
        (1, 3, (3, 5), "1 tree is too few {}: about 3 are needed.", "91.7 % with 1, 94.1 % with 3."),
    ],
)
def test_a_verdict_on_labels(
    n_members: int, size: int | None, interval: tuple[int, int | None], words: str, price: str
) -> None:
    found = verdict(of_labels(n_members, size, interval))
    assert found.startswith(words.format(LABELS))
    assert found.endswith(price)


def on_probabilities(n_members: int, agreement: float, size: int | None, interval: tuple[int, int | None]) -> Any:
    found = replace(
        CLASSIFICATION.recommendation, criterion="probability", confidence=None, tolerance=0.005,
        size=size, interval=interval, agreement=agreement,
    )  # fmt: skip
    return replace(CLASSIFICATION, n_members=n_members, recommendation=found)


PREDICT = "60 trees are enough for predict. Probabilities (predict_proba) at most 0.5 % above the limit"
OPEN = "too few for probabilities: about 319 are needed. 2.5 % of the predicted labels would change with more."


@pytest.mark.parametrize(
    ("agreement", "size", "interval", "words"),
    [
        (0.995, 73, (61, 88), f"{PREDICT} need about 73."),
        (0.995, None, (61, 300), f"{PREDICT} may need 61 to 300"),
        (0.995, None, (20_001, None), f"{PREDICT} need more than 20001."),
        (0.975, 319, (250, 400), f"60 trees are {OPEN}"),
        (0.975, 319, (50, 800), f"60 trees are perhaps {OPEN}"),
        (0.995, 50, (40, 58), "60 trees are enough for probabilities, and so are 50."),
    ],
)
def test_trees_that_settle_the_labels_are_not_called_too_few(
    agreement: float, size: int | None, interval: tuple[int, int | None], words: str
) -> None:
    assert verdict(on_probabilities(60, agreement, size, interval)).startswith(words)


def test_labels_are_not_settled_by_an_agreement_that_a_rare_label_hardly_moves() -> None:
    report = on_probabilities(60, 0.995, 319, (250, 400))
    labels = tuple(LabelBasis(name, n_rows, n_rows, 20.0, 1.0) for name, n_rows in (("a", 990), ("b", 10)))
    rare = replace(report, basis=replace(report.basis, labels=labels))
    assert verdict(rare).startswith("60 trees are too few for probabilities: about 319 are needed.")
    settled = on_probabilities(60, 0.9995, 319, (250, 400))
    assert verdict(replace(settled, basis=rare.basis)).startswith("60 trees are enough for predict.")


@pytest.mark.parametrize(("n_members", "words"), [
    (101, "101 trees are too few: no size up to 101 is enough for 99 % of the labels."),
    (102, "it is not known whether 102 trees are enough for 99 % of the labels: more than 101 are needed, the largest"),
])  # fmt: skip
def test_without_a_size_as_large_as_the_ensemble_nothing_is_known_of_it(n_members: int, words: str) -> None:
    report = of_labels(n_members, None, (101, None))
    recommendation = replace(report.recommendation, max_size=101)
    assert verdict(replace(report, recommendation=recommendation)).startswith(words)


def test_a_regression_is_told_in_the_unit_of_its_target() -> None:
    recommendation = replace(REGRESSION.recommendation, size=59, interval=(29, 119))
    words = verdict(replace(REGRESSION, n_members=10, recommendation=recommendation))
    assert words == (
        "10 trees are too few for a mean squared error at most 1 % above its limit: about 59 are needed. RMSE on new "
        "rows: 59.4 with 10, 56.5 with 59."
    )


def test_a_metric_has_its_own_name_and_tolerance() -> None:
    words = verdict(reports.score_report())
    assert "for roc_auc within 0.005 of its limit" in words
    assert "roc_auc on new rows: " in words


def test_a_curve_that_is_not_known_has_no_price() -> None:
    assert price_sentence(reports.all_reports()["short"]) == ""


def test_a_doubt_is_the_verdict_with_its_code() -> None:
    doubted = with_doubts(CLASSIFICATION, "Many rows are copies. Name groups.")
    assert headline(doubted) == "do not rely on these figures."
    assert verdict(doubted) == "do not rely on these figures. Many rows are copies. Name groups. [unnamed-doubt]"


@pytest.mark.parametrize(
    ("model", "noun"),
    [
        ("RandomForestClassifier", "tree"), ("ExtraTreesRegressor", "tree"), ("XGBRFClassifier", "tree"),
        ("Booster", "tree"), ("LGBMClassifier", "tree"), ("BaggingClassifier", "model"), ("CustomEnsemble", "model"),
        ("Mystery", "member"),
    ],
)  # fmt: skip
def test_members_are_called_what_they_are(model: str, noun: str) -> None:
    assert member_noun(replace(CLASSIFICATION, model=model)) == noun


def test_models_of_a_real_analysis_are_called_models_and_trees() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    for model, noun in ((BaggingClassifier(n_estimators=60, random_state=0), "models"),
                        (RandomForestClassifier(60, random_state=0), "trees")):  # fmt: skip
        assert f"60 {noun} are" in verdict(ens_plugin.analyze(model.fit(X, y), X, y))


def test_the_accuracy_stands_beside_the_error_of_labels_alone() -> None:
    assert CLASSIFICATION.accuracy == 1.0 - CLASSIFICATION.error
    assert np.isnan(REGRESSION.accuracy)
    assert np.isnan(reports.score_report().accuracy)


@pytest.mark.parametrize(
    ("here", "there", "texts"),
    [
        (0.03649, 0.03651, ("96.4 %", "96.4 %")),
        (0.0360, 0.0350, ("96.4 %", "96.5 %")),
        (0.0360, 0.03551, ("96.4 %", "96.4 %")),
        (0.0031, 0.0029, ("99.69 %", "99.71 %")),
    ],
)
def test_values_next_to_a_limit_of_rounding_are_not_told_apart(
    here: float, there: float, texts: tuple[str, str]
) -> None:
    assert _measured(reports.classification_report(), here, there) == ("Accuracy", *texts)


def test_no_value_and_one_beside_it() -> None:
    assert _measured(reports.score_report(), 0.0, 0.0)[1:] == ("0", "0")
    assert _measured(reports.score_report(), 0.99049, 0.99051)[1:] == ("0.990", "0.990")
