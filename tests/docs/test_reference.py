"""The reference names everything that is public, with an example, and what it states is so."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import adapters, testing
from ens_plugin.adapters.sklearn import tools
from ens_plugin.cli.main import NO_RESULT, NOT_MET
from ens_plugin.papers import (
    bagging_error_1996,
    ensemble_size_2013,
    error_curves_2007,
    model_averaging_2004,
    plots,
    score_tables_2017,
)

DOCS = Path(__file__).parents[2] / "docs"
API = [
    word
    for page in ("api.md", "adapters.md", "papers.md")
    for word in (DOCS / "reference" / page).read_text(encoding="utf-8").replace("`", "").split()
]
PUBLIC = sorted({*ens_plugin.__all__} - {"__version__", "errors"})


@pytest.fixture(scope="module")
def reports() -> list[ens_plugin.EnsembleReport]:
    """One report of a classifier, one of a regressor with its costs, one on a metric."""
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    X_values, values = load_diabetes(return_X_y=True)
    regressor = RandomForestRegressor(40, random_state=0).fit(X_values, values)
    return [
        ens_plugin.analyze(forest, X, y),
        ens_plugin.analyze(regressor, X_values, values).with_costs(ens_plugin.measure_costs(regressor, X_values)),
        ens_plugin.analyze(forest, X, y, metric="roc_auc_ovr"),
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_page(name: str) -> None:
    assert name in API


@pytest.mark.parametrize("module", [adapters, testing, tools], ids=lambda module: module.__name__)
def test_what_an_adapter_is_written_with_has_a_page(module: Any) -> None:
    path = module.__name__.removeprefix("ens_plugin.")
    # Re-exported there for adapters that need nothing else.
    elsewhere = {*adapters.__all__} if module is tools else set()
    assert [name for name in module.__all__ if f"{path}.{name}" not in API and name not in elsewhere] == []


PAPERS = [bagging_error_1996, model_averaging_2004, error_curves_2007, ensemble_size_2013, score_tables_2017, plots]


@pytest.mark.parametrize("module", PAPERS, ids=lambda module: module.__name__)
def test_what_a_paper_holds_has_a_page(module: Any) -> None:
    path = module.__name__.removeprefix("ens_plugin.")
    assert [name for name in module.__all__ if f"{path}.{name}" not in API] == []


@pytest.mark.parametrize("module", [adapters, testing, *PAPERS], ids=lambda module: module.__name__)
def test_what_an_adapter_is_written_with_and_what_a_paper_holds_has_an_example(module: Any) -> None:
    # A type, and what the package makes itself.
    values = {"Task", "ADAPTER_CHECKS", "AdapterCheck", "BaggingErrors", "HybridError", "BiteDesign", "BiteOption"}
    described = {name: inspect.getdoc(getattr(module, name)) or "" for name in {*module.__all__} - values}
    assert sorted(name for name, text in described.items() if "Examples\n--------" not in text) == []


@pytest.mark.parametrize(
    "name", [name for name in ens_plugin.errors.__all__ if name not in ("ends_at_caller", "warn_user")]
)
def test_an_error_has_a_page(name: str) -> None:
    assert f"errors.{name}" in API


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    """The examples run as doctests; here, that there is one, and that not all of its lines are skipped."""
    text = inspect.getdoc(getattr(ens_plugin, name)) or ""
    heading = "Examples\n--------\n"
    assert heading in text
    lines = doctest.DocTestParser().get_examples(text[text.index(heading) :])
    assert any("import" not in line.source and not line.options.get(doctest.SKIP) for line in lines)


def test_the_schema_describes_reports(reports: list[ens_plugin.EnsembleReport]) -> None:
    schema = schema_of_the_site()
    for report in reports:
        check(json.loads(report.to_json()), {"$ref": schema["$ref"]}, schema["$defs"])


def test_the_schema_refuses_what_is_no_report(reports: list[ens_plugin.EnsembleReport]) -> None:
    schema = schema_of_the_site()
    for broken in ({"task": "clustering"}, {"n_members": "many"}, {"unknown": 1}):
        with pytest.raises(AssertionError):
            check({**json.loads(reports[0].to_json()), **broken}, {"$ref": schema["$ref"]}, schema["$defs"])


def schema_of_the_site() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("report_schema", DOCS / "report_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    schema: dict[str, Any] = module.report_schema()
    return schema


KINDS = {"string": str, "integer": int, "boolean": bool, "number": (int, float), "null": type(None)}


def check(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """The part of JSON Schema that the site uses."""
    if "$ref" in schema:
        return check(value, definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    if "anyOf" in schema:
        assert any(fits(value, each, definitions) for each in schema["anyOf"]), value
    elif "enum" in schema or "const" in schema:
        assert value in schema.get("enum", [schema.get("const")])
    elif schema["type"] == "array":
        assert isinstance(value, list), value
        items = schema.get("prefixItems") or [schema["items"]] * len(value)
        for entry, each in zip(value, items, strict=True):
            check(entry, each, definitions)
    elif schema["type"] == "object":
        assert isinstance(value, dict), value
        assert {*schema.get("required", ())} <= {*value}
        for key, entry in value.items():
            assert key in schema.get("properties", value), key
            check(entry, schema.get("properties", {}).get(key) or schema["additionalProperties"], definitions)
    else:
        assert isinstance(value, KINDS[schema["type"]]), value  # type: ignore[arg-type]


def fits(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    try:
        check(value, schema, definitions)
    except AssertionError:
        return False
    return True


def test_every_metric_that_is_logged_is_described(reports: list[ens_plugin.EnsembleReport]) -> None:
    page = (DOCS / "reference" / "metric-names.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`ens\.(\w+)`", "\n".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))))
    assert described == {*reports[0].metrics(), *reports[1].metrics()}


def test_exit_codes_are_those_of_the_command_line() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    for table in page.split("\n## "):
        codes = dict(re.findall(r"^\| (\d+) \| (.*) \|$", table, flags=re.MULTILINE))
        if codes:
            assert {str(NOT_MET), str(NO_RESULT)} <= {*codes}
            assert "no " in codes[str(NO_RESULT)]
