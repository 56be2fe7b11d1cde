"""The output of `ens-plugin rightsize` as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from ens_plugin.cli.console import only_results_on_stdout, progress_bar, quiet_libraries
from ens_plugin.cli.recommendation import savings_lines, savings_markdown_lines
from ens_plugin.cli.request import AnalysisRequest, analysis_of
from ens_plugin.cli.store import use_store
from ens_plugin.registry.rightsizing.model_source import ModelSource, find_source
from ens_plugin.registry.rightsizing.rightsizing import Rightsizing, check_name, rightsize_analysed
from ens_plugin.report.text import escaped_markdown, printable, wrapped
from ens_plugin.tracking.store.models import is_uri

__all__ = ["SCHEMA_VERSION", "as_json", "as_markdown", "as_text", "rightsized"]

SCHEMA_VERSION = 1
TEXT_LIMIT = 300


def rightsized(request: AnalysisRequest, register: str | None) -> Rightsizing:
    """Load a model, cut it to its recommended size, log and register the smaller one, and return the outcome.

    Raises
    ------
    EnsPluginError
        If the model cannot be analysed, cut or logged.
    """
    check_name(register)
    source = _source(request)
    found = analysis_of(replace(request, model=source.uri))
    with only_results_on_stdout(), quiet_libraries():
        return rightsize_analysed(
            source, found.model, found.rows.X, found.rows.y, found.options, found.report, register, progress_bar
        )


def _source(request: AnalysisRequest) -> ModelSource:
    if not is_uri(request.model):
        return find_source(request.model)
    with only_results_on_stdout(), quiet_libraries():
        use_store(request.tracking_uri)
        return find_source(request.model)


def as_json(found: Rightsizing) -> str:
    """Return the outcome of a rightsizing as JSON; its fields are described in ``docs/reference/json.md``."""
    recommendation, logged = found.report.recommendation, found.logged
    content: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "source": found.source,
        "outcome": found.outcome,
        "passed": found.passed,
        "n_members": found.report.n_members,
        "size": recommendation.size,
        "interval": recommendation.interval,
        "reason": recommendation.reason,
        "checks": [asdict(check) for check in found.checks],
        "savings": None if found.savings is None else asdict(found.savings),
        "model": None if logged is None else {**logged._asdict(), "uri": logged.uri},
    }
    return json.dumps(content, indent=1, allow_nan=False)


def as_text(found: Rightsizing) -> str:
    """Return the outcome of a rightsizing as text, at most 80 columns wide."""
    lines = wrapped(found.sentence)
    lines += wrapped(printable(found.report.recommendation.reason))
    if found.checks:
        lines += ["", *(line for check in found.checks for line in wrapped(check.text, later="  "))]
    lines += savings_lines(found.savings)
    if found.logged is not None:
        lines += ["", *(line for sentence in _places(found) for line in wrapped(sentence, later="  "))]
    return "\n".join(lines)


def as_markdown(found: Rightsizing) -> str:
    """Return the outcome of a rightsizing in Markdown, with all text of the model and the registry escaped."""
    lines = [
        f"**{escaped_markdown(found.sentence, TEXT_LIMIT)}**",
        "",
        escaped_markdown(found.report.recommendation.reason, 400),
    ]
    lines += savings_markdown_lines(found.savings)
    details = [*(check.text for check in found.checks), *_places(found)]
    lines += [*([""] if details else []), *(f"- {escaped_markdown(detail, 400)}" for detail in details)]
    return "\n".join(lines)


def _places(found: Rightsizing) -> list[str]:
    return [] if found.logged is None else found.logged.sentences("--register NAME")
