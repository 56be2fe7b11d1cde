"""The paper cites what is in its list of references, and cites all of it."""

from __future__ import annotations

import re
from pathlib import Path

PAPER = Path(__file__).parents[2] / "paper"


def test_every_reference_is_cited_and_every_citation_has_one() -> None:
    cited = re.findall(r"@(\w+)", (PAPER / "paper.md").read_text(encoding="utf-8"))
    listed = re.findall(r"^@\w+\{(\w+),$", (PAPER / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len({*listed}) > 10
    assert {*cited} == {*listed}
