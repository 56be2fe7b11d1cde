"""Each percentage and each "N of M" on a page was measured by a script that its section names, or is a definition.

Output blocks are left out: other tests run the examples.  A section is what lies between two headings.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.results import ROOT, section

PAGES = [ROOT / "README.md", ROOT / "paper" / "paper.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURE = re.compile(r"((?:\d[\d.]*(?:, | and | to | or | against ))*\d[\d.]*)\s%|\b(\d+ of \d+)\b")
SCRIPT = re.compile(r"benchmarks[./]([a-z_]+)[./](\w+)")
TITLES = {
    title: script
    for script, title in re.findall(
        r"<!-- benchmarks\.([\w.]+): begin -->\n## (.*)\n",
        (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"),
    )
}
# Levels of intervals, tolerances, and what follows by arithmetic; by page, with the figure as it stands there.
EVERYWHERE = {"95", "99"}
DEFINITIONS: dict[str, set[str]] = {
    "docs/explanations/importance.md": {"68"},  # Of a normal error.
    "docs/explanations/metrics.md": {"0 of 160"},  # A sum over cells, which test_figures.py compares.
    "docs/explanations/other-tools.md": {"1", "37"},
    "docs/explanations/prediction-intervals.md": {"37"},
    "docs/explanations/papers.md": {"5"},
    "docs/explanations/spark.md": {"4"},  # The width of a cell.
    "docs/explanations/uncertainties.md": {"3.5"},
    "docs/explanations/worked-example.md": {"27.5"},
    "docs/explanations/x-axis.md": {"37"},
    "docs/faq.md": {"0.5", "5", "37"},
    "docs/how-to/agreement.md": {"10"},  # From which share on there is a doubt.
    "docs/how-to/at-scale.md": {"5"},
    "docs/how-to/metrics.md": {"1"},
    "docs/how-to/oob.md": {"37"},
    "docs/how-to/size.md": {"0.01", "0.2", "1", "2"},
    "docs/how-to/votes.md": {"5"},
    "docs/methods/comparison.md": {"2.5", "94"},  # A nominal level, and the interval of test_paired_losses.py.
    "docs/methods/held-out-rows.md": {"2"},  # Of a rule.
    "docs/methods/limits.md": {"3", "63"},  # Of a rule, and of rows in a bag.
    "docs/methods/metrics.md": {"1"},
    "docs/methods/size.md": {"0.5", "2"},
    "docs/methods/uneven-bags.md": {"0.5"},
    "docs/methods/votes.md": {"90"},  # Of rows that have members.
    "docs/reference/gate-policy.md": {"1"},
    "paper/paper.md": {"37"},
}


def parts(text: str) -> list[str]:
    """Return what lies between the headings of a page, without its output blocks."""
    return re.split(r"^#+ ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)


def figures(part: str) -> list[str]:
    """Return the percentages, and the counts of a number."""
    found = []
    for percentages, count in FIGURE.findall(part):
        found += [count] if count else re.findall(r"\d+(?:\.\d+)?", percentages)
    return found


def measured_in(part: str) -> str:
    """Return the sections of RESULTS.md that a part names, by script or by title."""
    text = " ".join(part.split())
    scripts = [".".join(names) for names in SCRIPT.findall(text)]
    scripts += [script for title, script in TITLES.items() if f'"{title}"' in text or f"[{title}]" in text]
    return "\n".join(section(script) for script in scripts)


def unknown(name: str, text: str) -> list[str]:
    """Return the figures of a page that are neither measured nor definitions."""
    known = EVERYWHERE | DEFINITIONS.get(name, set())
    return [
        figure
        for part in parts(text)
        for figure in figures(part)
        if figure not in known and not stands_in(measured_in(part), figure)
    ]


def stands_in(measured: str, figure: str) -> bool:
    """Return whether each number of a figure stands in measured text."""
    return all(re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", measured) for number in figure.split(" of "))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_stated_figures_were_measured_or_are_definitions(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert unknown(name, path.read_text(encoding="utf-8")) == []


def test_a_figure_that_nobody_measured_is_found() -> None:
    named = "It held in 98.3 % of cases, and in 12.34 % (`benchmarks/hard_data/repeats.py`)."
    assert unknown("README.md", f"{named}\n\n# Next\n\nIt held in 98.3 %, and 4 of 9.") == ["12.34", "98.3", "4 of 9"]
