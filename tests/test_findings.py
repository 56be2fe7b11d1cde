"""The registry of checks: every code is explained, and every finding has one of them."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.cli.main import cli
from ens_plugin.errors import InputError
from ens_plugin.findings import CHECKS, Finding, codes_of, distinct, explain, finding
from tests.reports import all_reports, with_doubts, with_notes

ROOT = Path(__file__).parents[1]
# Of adapters that are not part of this package, and of reports from before there were codes.
OF_OTHERS = {"of-adapter", "note-of-adapter"}
REPORT = all_reports()["classification"]


def codes_in_sources() -> Counter[str]:
    """Return the codes that the sources pass to `finding`."""
    found: Counter[str] = Counter()
    for path in [*(ROOT / "adapters").rglob("*.py"), *(ROOT / "ens_plugin").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "finding":
                found.update(arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
    return found


def test_the_sources_make_findings_of_every_check_and_of_no_other_code() -> None:
    assert codes_in_sources().keys() | OF_OTHERS == CHECKS.keys()


@pytest.mark.parametrize("code", CHECKS)
def test_a_check_is_explained_in_whole_sentences(code: str) -> None:
    check = CHECKS[code]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
    for sentence in (check.finds, check.remedy):
        assert sentence[0].isupper() or sentence.startswith(("y ", "scikit-learn "))
        assert sentence.endswith(".")
    assert explain(code).startswith(f"{code}, a {check.kind}: ")


def test_an_unknown_code_is_refused_with_those_that_are_like_it() -> None:
    with pytest.raises(InputError, match=r"No check has the code 'copie'\. Did you mean copies"):
        explain("copie")


def test_findings_in_the_same_words_count_once() -> None:
    found = [finding("few-rows", "Only 3 rows."), finding("few-rows", "Only 3 rows.", n_rows=3.0)]
    assert len(distinct([*found, finding("copies", "Copies.")])) == 2


def test_doubts_come_first_among_the_codes() -> None:
    found = [finding("few-rows", "Few."), finding("copies", "Copies."), finding("few-rows", "Fewer.")]
    assert codes_of(found) == ["copies", "few-rows"]


def test_the_text_of_a_report_ends_each_finding_with_its_code() -> None:
    report = with_notes(with_doubts(REPORT, "The rows are copies.", "The rows are few."), "A column moved.")
    text = " ".join(str(report).split())
    assert "Do not use these figures." in text
    assert "[of-adapter]" in text
    details = " ".join(report.details().split())
    assert "The rows are copies. [of-adapter]" in details
    assert "The rows are few. [of-adapter]" in details
    assert "A column moved. [note-of-adapter]" in details


def test_findings_come_back_from_json_with_code_and_numbers() -> None:
    found = finding("rare-label", "Only 1 % of the rows have label 'a'.", share=0.01)
    again = ens_plugin.EnsembleReport.from_json(with_found(found).to_json())
    assert again.findings == (found,)
    assert again.warnings == (found.sentence,)


@pytest.mark.parametrize(("field", "value"), [("code", "hearsay"), ("kind", "note")])
def test_a_finding_that_no_check_can_have_made_is_refused(field: str, value: str) -> None:
    content = with_doubts(REPORT, "The rows are copies.").to_dict()
    content["basis"]["findings"][0][field] = value
    with pytest.raises(InputError, match=rf"'basis\.findings\[0\]\.{field}' of this report holds '{value}'"):
        from_content(content)


def test_numbers_that_no_check_can_have_found_are_refused() -> None:
    with pytest.raises(InputError, match=r"basis\.findings\[0\]\.numbers"):
        ens_plugin.EnsembleReport.from_json(with_found(finding("few-rows", "Few.", n_rows=np.inf)).to_json())


def test_texts_of_a_third_party_adapter_get_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    monkeypatch.setattr(SklearnForestAdapter, "cautions", lambda self, data: ("One tree is odd.",))
    monkeypatch.setattr(SklearnForestAdapter, "doubts", lambda self: ("All trees are odd.",))
    report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    assert codes_of(report.findings)[:1] == ["of-adapter"]
    assert report.basis.doubts == ("All trees are odd.",)
    assert "note-of-adapter" in codes_of(report.findings)


def test_the_command_line_explains_a_code_with_or_without_its_brackets() -> None:
    for code in ("subjects", "[subjects]"):
        result = CliRunner().invoke(cli, ["explain", code])
        assert result.output.startswith("subjects, a doubt: Several rows seem to belong to one subject")
    assert CliRunner().invoke(cli, ["explain"]).output.splitlines() == list(CHECKS)


def from_content(content: dict[str, Any]) -> ens_plugin.EnsembleReport:
    return ens_plugin.EnsembleReport.from_json(json.dumps(content))


def with_found(found: Finding) -> ens_plugin.EnsembleReport:
    return replace(REPORT, basis=replace(REPORT.basis, findings=(found,)))
