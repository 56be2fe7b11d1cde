"""The self-contained HTML page of a report, and the cards of reports and comparisons.

The page is read in MLflow's small sandboxed frame, on phones, and by people to whom out-of-bag rows
are new: verdict and figure are at the top, explanations of the numbers below.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ens_plugin.core.validation import printable, with_article
from ens_plugin.errors import InputError
from ens_plugin.files import write_whole
from ens_plugin.report import answer, text
from ens_plugin.report.plots import (
    GREEN,
    GREY,
    INK,
    PALETTE,
    default_style,
    plot_bias_variance,
    plot_reports,
    plot_whole,
    report_plots,
    size_tips,
)
from ens_plugin.report.result import ZERO_ONE, ReportContent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ens_plugin.report.comparison import Comparison

__all__ = [
    "NARROW",
    "WIDE",
    "comparison_card",
    "draw_svg",
    "render",
    "render_page",
    "report_card",
    "report_values",
    "write_document",
    "write_page",
]

_HREF = "{http://www.w3.org/1999/xlink}href"


def draw_svg(
    draw: Callable[..., Axes], inches: tuple[float, float], name: str, colours: Mapping[str, str] | None = None
) -> Any:
    """Draw a figure and return it as an SVG element for embedding in a page."""
    from markupsafe import Markup
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with default_style(font_size=9.5):
        figure = Figure(figsize=inches, layout="constrained")
        ax = draw(ax=figure.subplots())
        figure.savefig(buffer, format="svg", transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    _inline(root, name, colours or {})
    root.append(_tips(ax))
    # Safe: the tree is written anew by ElementTree, which escapes every text and attribute.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


POINTS = 72.0  # to the inch, the unit of the SVG documents of matplotlib


def _tips(ax: Axes) -> ElementTree.Element:
    """Return the strips of a chart over which a pointer shows the values at their sizes; none without curves."""
    group = ElementTree.Element("g", {"class": "tips"})
    found, scale = size_tips(ax), POINTS / ax.figure.dpi
    left, bottom, right, top = ax.bbox.extents
    places = [float(ax.transData.transform((tip.size, 1.0))[0]) for tip in found]
    edges = [left, *(sum(pair) / 2.0 for pair in itertools.pairwise(places)), right]
    height = ax.figure.bbox.height
    for tip, (start, stop) in zip(found, itertools.pairwise(edges), strict=False):
        box = {"x": start, "y": height - top, "width": stop - start, "height": top - bottom}
        strip = ElementTree.SubElement(group, "rect", {key: f"{scale * value:.2f}" for key, value in box.items()})
        ElementTree.SubElement(strip, "title").text = tip.text
    return group


def _inline(root: ElementTree.Element, name: str, colours: Mapping[str, str]) -> None:
    """Free an SVG document of namespaces and references, and prefix its ids with `name`."""
    targets = {element.get("id"): element for element in root.iter() if element.get("id")}
    _drop(root, ("metadata", "style"))
    _replace_uses(root, targets)
    _drop(root, ("defs",), unless_holding="clipPath")
    _rename_ids(root, name)
    for element in root.iter():
        element.tag = _plain_tag(element)
        if "style" in element.attrib and colours:
            style = re.sub(r"#[0-9a-f]{6}", lambda found: colours.get(found[0], found[0]), element.attrib["style"])
            element.set("style", style)
    root.attrib.pop("version", None)
    root.set("aria-hidden", "true")


def _drop(root: ElementTree.Element, tags: tuple[str, ...], unless_holding: str | None = None) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            held = any(_plain_tag(item) == unless_holding for item in child)
            if _plain_tag(child) in tags and not held:
                parent.remove(child)


def _replace_uses(root: ElementTree.Element, targets: dict[str | None, ElementTree.Element]) -> None:
    # A <use> needs a reference attribute, which strict sandboxes and mail filters take for a link.
    for element in root.iter():
        if _plain_tag(element) != "use":
            continue
        target = targets[element.attrib.pop(_HREF)[1:]]
        x, y = element.attrib.pop("x", "0"), element.attrib.pop("y", "0")
        element.tag = target.tag
        element.set("d", target.get("d", ""))
        element.set("transform", f"translate({x} {y})")
        element.set("style", f"{element.get('style', '')};{target.get('style', '')}")


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    clips = [element for element in root.iter() if _plain_tag(element) == "clipPath"]
    names = {element.get("id"): f"{name}-{index}" for index, element in enumerate(clips)}
    for element in root.iter():
        new = names.get(element.attrib.pop("id", None))
        if new:
            element.set("id", new)
        if "clip-path" in element.attrib:
            element.set(
                "clip-path", re.sub(r"#([^)]*)", lambda found: f"#{names[found[1]]}", element.attrib["clip-path"])
            )


def _plain_tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def render(name: str, **values: Any) -> str:
    """Return the template of a name with its values, each escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ens_plugin.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def _keep_units(value: Any) -> Any:
    return value.replace(" %", "\xa0%") if type(value) is str else value


_LONGEST_TEXT = 1000
_MOST_LABELS = 20


def report_values(report: ReportContent) -> dict[str, Any]:
    """Return the numbers and texts of a report, formatted, by their names in the templates."""
    curve, parts, advice = report.error_curve, report.bias_variance, report.recommendation
    reached = curve.reaches(report.n_members)
    seed_sd, seed_unit = text.spread_and_unit(report.algorithmic_sd, curve.metric)
    limit_known = not math.isnan(curve.asymptote)
    root = text.root_texts(report)
    headline, doubt = answer.headline(report), text.first_doubt(report)
    has_matrix = 0 < len(report.label_errors) <= _MOST_LABELS
    return {
        "model": _shown(report.model, 80),
        "verdict": headline,
        "headline": headline[:1].upper() + headline[1:],
        "doubt": "" if doubt is None else text.with_code(doubt, _LONGEST_TEXT),
        "gain": text.gain_sentence(report),
        "root": text.root_sentence(report),
        "root_error": root.error,
        "root_interval": root.interval,
        "root_limit": root.limit,
        "warnings": [text.with_code(each, _LONGEST_TEXT) for each in text.further_findings(report)],
        "metric": _shown(curve.metric, 40),
        "metric_title": "Mean squared error" if report.is_squared else _shown(curve.metric, 40),
        "is_share": curve.metric == ZERO_ONE,
        "greater_is_better": curve.greater_is_better,
        "is_squared": report.is_squared,
        "level": text.level_text(curve.interval_level),
        "members": text.number_text(report, report.n_members),
        "noun": text.member_noun(report),
        "error": text.error_text(report.error, curve.metric),
        "error_interval": text.interval_text(report.error_interval, curve.metric) if reached else "",
        "limit": text.error_text(curve.asymptote, curve.metric),
        "limit_interval": text.interval_text(curve.asymptote_interval, curve.metric) if limit_known else "",
        "size_label": text.size_label(report),
        "size": text.recommended_text(advice),
        "size_interval": text.recommended_interval_text(advice),
        "criterion": text.criterion_words(advice),
        "reason": _shown(text.reason_sentence(report)),
        "agreement": None if advice.agreement is None else text.error_text(advice.agreement, ZERO_ONE),
        "is_agreement": advice.criterion == "agreement",
        "excess_loss": "mean Brier score" if advice.criterion == "probability" else "error",
        "of_metric": None if advice.of_metric is None else _shown(advice.of_metric, 40),
        "is_absolute": bool(advice.is_absolute),
        "criteria": text.criteria_rows(report),
        "labels": text.label_rows(report, _MOST_LABELS),
        "label_notes": text.label_notes(report, _MOST_LABELS),
        "has_size": report.recommended_size is not None,
        "heat": _heat(report) if has_matrix else [],
        "has_matrix": has_matrix,
        "predictors": text.predictors(report),
        "outputs": text.output_rows(report),
        "output_sentence": text.output_sentence(report),
        "seed_sd": seed_sd,
        "seed_unit": f"{seed_unit}, " if seed_unit else "",
        "seed_sd_is_bound": report.algorithmic_sd_is_bound and not math.isnan(report.algorithmic_sd),
        "seed_rows": "fresh" if report.data == "oob" and not report.algorithmic_sd_is_bound else "these",
        "loss": _shown(parts.loss, 40),
        "loss_title": "Mean squared error" if report.is_squared else _shown(parts.loss, 40),
        "member_error": text.error_text(parts.member_error, parts.loss),
        "variance": text.variance_sentence(report),
        "bias": text.error_text(parts.bias, parts.loss),
        "is_oob": report.data == "oob",
        "is_path": curve.estimator == "path",
        "last_size": None if limit_known else int(curve.sizes[-1]),
        "facts": _facts(report),
    }


_SHADES = 9


def _heat(report: ReportContent) -> list[list[int]]:
    """Return the shade of each cell of the confusion matrix, from 0 to 9, by the share of the rows of its label.

    The root of the share shows what is confused, which is rare beside what is right.
    """
    return [
        [round(_SHADES * math.sqrt(count / max(errors.n_rows, 1))) for count in errors.predicted]
        for errors in report.label_errors
    ]


def _facts(report: ReportContent) -> list[tuple[str, str]]:
    curve, noun = report.error_curve, text.member_noun(report)
    check = "" if curve.check is None else text.spread_text(curve.check, curve.metric)
    versions = ", ".join(f"{_shown(name, 60)} {_shown(version, 60)}" for name, version in report.versions.items())
    facts = [
        ("Model", f"{_shown(report.model, 80)}, {text.number_text(report, report.n_members)}, {report.task}"),
        (
            "Rows used",
            f"{report.n_rows} ({'out-of-bag' if report.data == 'oob' else 'held-out'})"
            f"{text.independence_words(report.basis.n_groups)}",
        ),
        (
            "Rows left out",
            f"{report.rows_without_oob} (too few {noun}s out of bag)" if report.rows_without_oob else "",
        ),
        (
            "Rows without labels",
            "" if report.basis.n_unlabelled is None else f"{report.basis.n_unlabelled}, for agreement",
        ),
        ("Groups", text.group_words(report.basis.n_groups, report.n_rows)),
        ("Rows of the metric", "" if curve.metric_basis is None else str(curve.metric_basis.n_rows)),
        ("Finite log loss", text.finite_words(curve.metric_basis)),
        (f"{noun.title()}s per row", f"{report.mean_oob_members:.1f} on average"),
        ("In-bag rows", text.in_nouns(text.bag_words(report), report)),
        ("Prediction", text.in_nouns(text.aggregation_words(report), report)),
        ("Error curve", text.in_nouns(text.estimator_words(report), report)),
        (
            "Check of the curve",
            f"differs by at most {check} from the average over subsets of the {noun}s" if check else "",
        ),
        ("Computed", _shown(report.created, 40)),
        ("Versions", versions),
    ]
    return [(name, value) for name, value in facts if value]


def _shown(line: str, limit: int = _LONGEST_TEXT) -> str:
    return printable(line, limit)


WIDE, LOW = (7.2, 2.9), (5.2, 2.6)
COMPARED = (7.2, 3.6)

# Colours of the figures, as variables of the style sheet that a dark theme sets to others.
_VARIABLES = {
    **{colour: f"--ens-line-{place}" for place, colour in enumerate(PALETTE, start=1)},
    GREEN: "--ens-good",
    INK: "--ens-text",
    "#000000": "--ens-text",
    GREY: "--ens-muted",
    "#ffffff": "--ens-paper",
}
_THEMED = {colour.lower(): f"var({name})" for colour, name in _VARIABLES.items()}

# Of the outputs of this process: a page must not have two elements of one id.
_shown_in_card = itertools.count(1)


def report_card(report: ReportContent) -> str:
    """Return a report as a card: verdict, curve and sizes, and the rest folded."""
    return render(
        "card.html.j2",
        **report_values(report),
        plain=answer.summarize(report),
        is_doubtful=bool(report.basis.doubts) or not report.is_actionable,
        errors=text.error_lines(report),
        measure=text.measure_name(report),
        sizes=_sizes(report),
        curve_picture=_picture(partial(plot_reports, {report.model: report}), WIDE),
        parts_picture=_picture(partial(plot_bias_variance, report), LOW),
    )


def comparison_card(comparison: Comparison) -> str:
    """Return reports side by side as a card: how they differ, their curves in one chart, and a table."""
    return render(
        "comparison.html.j2",
        heads=text.comparison_heads(comparison.reports),
        rows=text.comparison_rows(comparison.reports),
        sentences=[printable(sentence, _LONGEST_TEXT) for sentence in comparison.sentences],
        plain=str(comparison),
        curve_picture=_picture(partial(plot_reports, comparison.reports), COMPARED),
    )


def _picture(draw: Callable[..., Axes], inches: tuple[float, float]) -> Any:
    number = next(_shown_in_card)
    picture = draw_svg(draw, inches, f"ens-{number}", _THEMED)
    # Outputs of two sessions stay side by side in a notebook; the same curve then has the same clip in both.
    digest = sha256(picture.encode()).hexdigest()[:10]
    return type(picture)(picture.replace(f"ens-{number}-", f"ens-{digest}-{number}-"))


def _sizes(report: ReportContent) -> list[text.CriterionRow]:
    """Return the table of sizes by criterion; the recommended size alone in reports that have no such table."""
    rows = text.criteria_rows(report)
    return rows or text.criteria_rows(report, (report.recommendation,))


WIDE, NARROW = (7.5, 2.75), (3.5, 2.9)


def render_page(report: ReportContent) -> str:
    """Return a report as the text of a self-contained HTML page."""
    return render("report.html.j2", **report_values(report), **_pictures(report))


def write_page(report: ReportContent, path: str | Path) -> Path:
    """Write a report as one HTML file, completely or not at all."""
    return write_document(partial(render_page, report), path)


def write_document(rendered: Callable[[], str], path: str | Path) -> Path:
    """Write the text of a page as one HTML file, completely or not at all."""
    try:
        target = Path(path)
    except TypeError as error:
        raise InputError(
            f"path is {with_article(type(path).__name__)}; pass the name of a file, such as 'report.html'."
        ) from error
    if not os.path.isdir(target.parent):
        raise InputError(f"path={str(target)!r}: the directory {str(target.parent)!r} does not exist; create it first.")
    if os.path.isdir(target):
        raise InputError(f"path={str(target)!r} is a directory; add a file name such as report.html.")
    try:
        write_whole(target, rendered().encode())
    except (OSError, ValueError) as error:
        raise InputError(f"path={str(target)!r} cannot be written ({error}); choose another path.") from error
    return target


def _pictures(report: ReportContent) -> dict[str, Any]:
    plots = report_plots(report)
    return {
        "wide_curve": draw_svg(plots["error_curve"], WIDE, "curve-wide"),
        "narrow_curve": draw_svg(plots["error_curve"], NARROW, "curve-narrow"),
        "whole_curve": draw_svg(partial(plot_whole, report), LOW, "curve-whole"),
        "agreement_picture": draw_svg(plots["agreement"], NARROW, "agreement"),
        "parts_picture": draw_svg(plots["bias_variance"], NARROW, "parts"),
    }
