"""Figures as SVG elements that stand in a page, without references to anything outside."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ens_plugin.report.chart_style import default_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_svg"]

_HREF = "{http://www.w3.org/1999/xlink}href"


def draw_svg(
    draw: Callable[..., Axes], inches: tuple[float, float], name: str, colours: Mapping[str, str] | None = None
) -> Any:
    """Draw a figure and return it as an SVG element for embedding in a page.

    Parameters
    ----------
    draw : callable
        ``draw(ax=axes)`` draws on axes.
    inches : tuple of (float, float)
        Width and height, which set how large texts are within the figure.
    name : str
        Begin of every id.
    colours : mapping of str to str, optional
        What stands in styles in place of the colours ``"#rrggbb"``, such as variables of a style sheet.

    Returns
    -------
    markupsafe.Markup
    """
    from markupsafe import Markup
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with default_style(font_size=9.5):
        figure = Figure(figsize=inches, layout="constrained")
        draw(ax=figure.subplots())
        figure.savefig(buffer, format="svg", transparent=True)
    # Safe: the tree is written anew by ElementTree, which escapes every text and attribute.
    return Markup(_inline(buffer.getvalue(), name, colours or {}))


def _inline(document: bytes, name: str, colours: Mapping[str, str]) -> str:
    """Return an SVG document as one element without namespaces or references, its ids prefixed with `name`."""
    root = ElementTree.fromstring(document)
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
