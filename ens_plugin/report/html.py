"""Rendering of a report as one self-contained HTML page, without scripts, links or anything to download.

The page is read in MLflow's small sandboxed frame, on phones, and by people to whom out-of-bag rows
are new: verdict and figure are at the top, explanations of the numbers below.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ens_plugin.errors import InputError
from ens_plugin.files import write_whole
from ens_plugin.report import quantities, tables
from ens_plugin.report import text as summary
from ens_plugin.report.chart_style import default_style
from ens_plugin.report.plots import report_plots
from ens_plugin.report.result import EnsembleReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["render_page", "write_page"]

_LONGEST_TEXT = 1000
_MOST_LABELS = 20
_HREF = "{http://www.w3.org/1999/xlink}href"
_WIDE, _NARROW = (7.5, 2.75), (3.5, 2.9)


def render_page(report: EnsembleReport) -> str:
    """Return a report as the text of a self-contained HTML page.

    Parameters
    ----------
    report : EnsembleReport

    Returns
    -------
    str
        HTML text; equal reports have equal texts.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> render_page(report).startswith("<!DOCTYPE html>")
    True
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ens_plugin.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(**_content(report), **_pictures(report))


def write_page(report: EnsembleReport, path: str | Path) -> Path:
    """Write a report as one HTML file, completely or not at all.

    Parameters
    ----------
    report : EnsembleReport
    path : str or Path
        File to write; an existing one is replaced.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    InputError
        If the directory of `path` does not exist, `path` is a directory, or the file cannot be written.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_page(report, f"{directory}/report.html").name
    'report.html'
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path={str(target)!r}: the directory {str(target.parent)!r} does not exist; create it first.")
    if target.is_dir():
        raise InputError(f"path={str(target)!r} is a directory; add a file name such as report.html.")
    try:
        write_whole(target, render_page(report).encode())
    except OSError as error:
        raise InputError(f"path={str(target)!r} cannot be written ({error}); choose another path.") from error
    return target


def _content(report: EnsembleReport) -> dict[str, Any]:
    """Return the numbers and texts of the page, formatted, by their names in the template."""
    curve, parts, advice = report.error_curve, report.bias_variance, report.recommendation
    reached = curve.reaches(report.n_members)
    seed_sd, seed_unit = quantities.spread_and_unit(report.algorithmic_sd, curve.metric)
    limit_known = not math.isnan(curve.asymptote)
    return {
        "model": _shown(report.model, 80),
        "verdict": summary.verdict(report),
        "gain": summary.gain_sentence(report),
        "warnings": [_shown(text) for text in summary.all_cautions(report)],
        "metric": _shown(curve.metric, 40),
        "is_share": curve.metric == "0-1 error",
        "greater_is_better": curve.greater_is_better,
        "is_squared": curve.metric == "mean squared error",
        "level": quantities.level_text(curve.interval_level),
        "members": quantities.members_text(report.n_members),
        "error": quantities.error_text(report.error, curve.metric),
        "error_interval": quantities.interval_text(report.error_interval, curve.metric) if reached else "",
        "limit": quantities.error_text(curve.asymptote, curve.metric),
        "limit_interval": quantities.interval_text(curve.asymptote_interval, curve.metric) if limit_known else "",
        "size_label": summary.size_label(report),
        "size": quantities.recommended_text(advice),
        "size_interval": quantities.recommended_interval_text(advice),
        "criterion": summary.criterion_words(advice),
        "reason": _shown(advice.reason),
        "agreement": None if advice.agreement is None else quantities.error_text(advice.agreement, "0-1 error"),
        "is_agreement": advice.criterion == "agreement",
        "excess_loss": "mean Brier score" if advice.criterion == "probability" else "error",
        "of_metric": None if advice.of_metric is None else _shown(advice.of_metric, 40),
        "is_absolute": bool(advice.is_absolute),
        "criteria": tables.criteria_rows(report),
        "labels": tables.label_rows(report, _MOST_LABELS),
        "hidden_labels": tables.hidden_labels(report, _MOST_LABELS),
        "has_matrix": 0 < len(report.label_errors) <= _MOST_LABELS,
        "predictors": tables.predictors(report),
        "outputs": tables.output_rows(report),
        "output_sentence": tables.output_sentence(report),
        "seed_sd": seed_sd,
        "seed_unit": f"{seed_unit}, " if seed_unit else "",
        "seed_sd_is_bound": report.algorithmic_sd_is_bound and not math.isnan(report.algorithmic_sd),
        "seed_rows": "fresh" if report.data == "oob" and not report.algorithmic_sd_is_bound else "these",
        "loss": _shown(parts.loss, 40),
        "member_error": quantities.error_text(parts.member_error, parts.loss),
        "member_variance": quantities.error_text(parts.member_variance, parts.loss),
        "bias": quantities.error_text(parts.bias, parts.loss),
        "is_oob": report.data == "oob",
        "is_path": curve.estimator == "path",
        "last_size": None if limit_known else int(curve.sizes[-1]),
        "facts": _facts(report),
    }


def _keep_units(value: Any) -> Any:
    return value.replace(" %", "\xa0%") if type(value) is str else value


def _facts(report: EnsembleReport) -> list[tuple[str, str]]:
    curve = report.error_curve
    check = "" if curve.check is None else quantities.spread_text(curve.check, curve.metric)
    versions = ", ".join(f"{_shown(name, 60)} {_shown(version, 60)}" for name, version in report.versions.items())
    facts = [
        ("Model", f"{_shown(report.model, 80)}, {quantities.members_text(report.n_members)}, {report.task}"),
        ("Rows used", f"{report.n_rows} ({'out-of-bag' if report.data == 'oob' else 'held-out'})"),
        (
            "Rows left out",
            f"{report.rows_without_oob} (too few members out of bag)" if report.rows_without_oob else "",
        ),
        ("Rows of the metric", "" if curve.metric_basis is None else str(curve.metric_basis.n_rows)),
        ("Members per row", f"{report.mean_oob_members:.1f} on average"),
        ("In-bag rows", summary.bag_words(report)),
        ("Prediction", summary.aggregation_words(report)),
        ("Error curve", summary.estimator_words(report)),
        (
            "Check of the curve",
            f"differs by at most {check} from the average over subsets of the members" if check else "",
        ),
        ("Computed", _shown(report.created, 40)),
        ("Versions", versions),
    ]
    return [(name, text) for name, text in facts if text]


def _shown(text: str, limit: int = _LONGEST_TEXT) -> str:
    return summary.printable(text, limit)


def _pictures(report: EnsembleReport) -> dict[str, Any]:
    plots = report_plots(report)
    return {
        "wide_curve": _svg(plots["error_curve"], _WIDE, "curve-wide"),
        "narrow_curve": _svg(plots["error_curve"], _NARROW, "curve-narrow"),
        "agreement_picture": _svg(plots["agreement"], _NARROW, "agreement"),
        "parts_picture": _svg(plots["bias_variance"], _NARROW, "parts"),
    }


def _svg(draw: Callable[..., Axes], inches: tuple[float, float], name: str) -> Any:
    """Draw a figure with `draw` and return it as an SVG element for embedding in a page."""
    from markupsafe import Markup
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with default_style(font_size=9.5):
        figure = Figure(figsize=inches, layout="constrained")
        draw(ax=figure.subplots())
        figure.savefig(buffer, format="svg", transparent=True)
    # Safe: the tree is written anew by ElementTree, which escapes every text and attribute.
    return Markup(_inline(buffer.getvalue(), name))


def _inline(document: bytes, name: str) -> str:
    """Return an SVG document as one element without namespaces or references, its ids prefixed with `name`."""
    root = ElementTree.fromstring(document)
    targets = {element.get("id"): element for element in root.iter() if element.get("id")}
    _drop(root, ("metadata", "style"))
    _replace_uses(root, targets)
    _drop(root, ("defs",), unless_holding="clipPath")
    _rename_ids(root, name)
    for element in root.iter():
        element.tag = _plain_tag(element)
    root.attrib.pop("version", None)
    root.set("aria-hidden", "true")
    return ElementTree.tostring(root, encoding="unicode")


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
