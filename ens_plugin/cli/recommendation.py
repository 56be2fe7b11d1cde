"""The output of `ens-plugin recommend` as text, Markdown and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from ens_plugin.cli.console import only_results_on_stdout, write_bytes
from ens_plugin.cli.inputs import AnalysisRequest, analysis_of
from ens_plugin.core.validation import counted, plural
from ens_plugin.errors import InputError
from ens_plugin.report.answers import answer_lines, markdown_answers
from ens_plugin.report.budget import Budget
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.text import (
    criterion_words,
    escaped_markdown,
    member_noun,
    number_text,
    printable,
    wrapped,
)
from ens_plugin.sizing.budget import measure_costs
from ens_plugin.sizing.truncate import Check


@dataclass(frozen=True)
class Limits:
    """The demands of a CI job on a model, None for no demand."""

    max_size_ratio: float | None = None
    min_agreement: float | None = None
    max_bytes: float | None = None
    max_latency: float | None = None


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The result of ``ens-plugin recommend``."""

    report: EnsembleReport
    checks: tuple[Check, ...]  # "recommended_size" first, then the demands of the job
    picture: str | None = None  # path of the picture of the error curve
    is_decided: bool = True  # there are enough rows, and no doubts
    budget: Budget | None = None

    @property
    def passed(self) -> bool:
        """Whether every demand is met."""
        return all(check.passed for check in self.checks)


def recommended(request: AnalysisRequest, limits: Limits, measure: bool, picture: Path | None) -> Recommendation:
    """Analyse a model and check the demands; if requested, measure its costs and draw the curve."""
    found = analysis_of(request)
    budget = None
    if measure or (limits.max_bytes, limits.max_latency) != (None, None):
        with only_results_on_stdout():
            costs = measure_costs(found.model, found.rows.X)
        budget = found.report.budget(costs, max_bytes=limits.max_bytes, max_latency=limits.max_latency)
    checks = (*checks_of(found.report, limits), *(() if budget is None else budget_checks(budget)))
    if picture is not None:
        write_bytes(picture, _error_curve_png(found.report))
    shown = None if picture is None else str(picture)
    return Recommendation(found.report, checks, shown, found.report.is_actionable, budget)


def _error_curve_png(report: EnsembleReport) -> bytes:
    from ens_plugin.report.plots import report_figures

    buffer = BytesIO()
    report_figures(report)["error_curve.png"].savefig(buffer, format="png")
    return buffer.getvalue()


def checks_of(report: EnsembleReport, limits: Limits) -> tuple[Check, ...]:
    """Return the checks of a report: first whether any size is large enough, then the demands in `limits`."""
    checks = [_size_check(report)]
    if limits.max_size_ratio is not None:
        checks.append(_ratio_check(report, limits.max_size_ratio))
    if limits.min_agreement is not None:
        checks.append(_agreement_check(report, limits.min_agreement))
    return tuple(checks)


def _size_check(report: EnsembleReport) -> Check:
    found = report.recommendation
    if report.undecided:
        return Check("recommended_size", False, found.size, found.max_size, report.undecided)
    noun = member_noun(report)
    reached = (
        f"{counted(found.size, f'{noun} is', f'{plural(noun)} are')} enough"
        if found.size
        else f"not even {counted(found.max_size, f'{noun} is', f'{plural(noun)} are')} enough"
    )
    sentence = f"{reached} for {criterion_words(found)}."
    return Check("recommended_size", found.size is not None, found.size, found.max_size, sentence)


def _ratio_check(report: EnsembleReport, limit: float) -> Check:
    if report.undecided:
        return Check("max_size_ratio", False, None, limit, report.undecided)
    size, ratio = report.recommended_size, report.size_ratio
    if size is None and ratio > 1.0:
        # The ratio to the largest size considered; more members than that are needed.
        now, most = number_text(report, report.n_members), report.recommendation.max_size
        sentence = f"{now}: less than {ratio:.2f} times as many as needed, which are more than {most}."
        return Check("max_size_ratio", ratio <= limit, ratio, limit, sentence)
    if size is None:
        # The demand is on ensembles larger than needed; one for which no size is large enough meets it.
        return Check("max_size_ratio", True, None, limit, "The ensemble is not larger than recommended.")
    return Check(
        "max_size_ratio",
        ratio <= limit,
        ratio,
        limit,
        f"{number_text(report, report.n_members)}: {ratio:.2f} times the recommended {size}; at most {limit:g} wanted.",
    )


def _agreement_check(report: EnsembleReport, limit: float) -> Check:
    agreement = report.recommendation.agreement
    if agreement is None:
        raise InputError(
            "--min-agreement compares labels with those of the infinite ensemble, but this model predicts values. "
            "Leave it out, and set with --tolerance how close the error has to be."
        )
    sentence = (
        f"{number_text(report, report.n_members)} and infinitely many give the same label on {100 * agreement:.2f} % "
        f"of rows; at least {100 * limit:g} % wanted."
    )
    return Check("min_agreement", agreement >= limit, agreement, limit, sentence)


def budget_checks(budget: Budget) -> tuple[Check, ...]:
    """Return the checks of a model's own bytes and latency against the limits of a budget."""
    now, costs = budget.report.n_members, budget.costs
    found = []
    if budget.max_bytes is not None:
        megabytes, limit = costs.bytes.at(now) / 1e6, budget.max_bytes / 1e6
        sentence = f"{number_text(budget.report, now)}: {megabytes:.4g} MB pickled; at most {limit:g} wanted."
        found.append(Check("max_megabytes", megabytes <= limit, megabytes, limit, sentence))
    if budget.max_latency is not None:
        latency, limit = 1e3 * costs.latency.at(now), 1e3 * budget.max_latency
        spread = f"quartiles within {100 * costs.latency.spread:.0f} %"
        measured = f"{number_text(budget.report, now)}: {latency:.4g} ms for one row (median, {spread})"
        sentence = f"{measured}; at most {limit:g} wanted."
        found.append(Check("max_latency_ms", latency <= limit, latency, limit, sentence))
    return tuple(found)


def as_json(found: Recommendation) -> str:
    """Return a recommendation as JSON; its fields are described in ``docs/reference/json.md``."""
    recommendation = found.report.to_dict()["recommendation"]
    brief = {name: value for name, value in recommendation.items() if name not in ("sizes", "losses")}
    content: dict[str, Any] = {
        "schema_version": 1,
        "model": found.report.model,
        "n_members": found.report.n_members,
        "accuracy": _known(found.report.accuracy),
        "error": _known(found.report.error),
        "rmse": _known(found.report.rmse),
        **brief,
        "passed": found.passed,
        "checks": [asdict(check) for check in found.checks],
        "picture": found.picture,
        "budget": None if found.budget is None else _budget_content(found.budget),
    }
    return json.dumps(content, indent=1, allow_nan=False)


def _budget_content(budget: Budget) -> dict[str, Any]:
    costs = asdict(budget.costs)
    del costs["n_members"]
    return {"max_bytes": budget.max_bytes, "max_latency": budget.max_latency, "largest_size": budget.size, **costs}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def as_text(found: Recommendation) -> str:
    """Return a recommendation as text, at most 80 columns wide."""
    lines = answer_lines(found.report)
    lines += [] if found.budget is None else ["", *found.budget.lines()]
    demands = [line for check in found.checks[1:] for line in wrapped(check.text, later="  ")]
    return "\n".join([*lines, *([""] if demands else []), *demands])


def as_markdown(found: Recommendation) -> str:
    """Return a recommendation in Markdown, with all text of the report escaped."""
    report = found.report
    failed = [f"**{escaped_markdown(check.text, 400)}**\n" for check in found.checks if not check.passed]
    lines = [*failed, markdown_answers(report)]
    lines += [] if found.budget is None else ["", *found.budget.markdown()]
    demands = [f"- {escaped_markdown(check.text, 400)}" for check in found.checks[1:] if check.passed]
    lines += [*([""] if demands else []), *demands]
    if found.picture is not None:
        target = printable(found.picture).replace("<", "%3C").replace(">", "%3E").replace("\\", "%5C")
        lines += ["", f"[The error curve as a picture](<{target}>)"]
    return "\n".join(lines)
