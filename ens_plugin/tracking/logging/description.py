"""The block that a report owns inside the description of an MLflow run."""

from __future__ import annotations

import re

__all__ = ["merge_description"]

BLOCK_LIMIT = 4000
DESCRIPTION_LIMIT = 8000  # of MLflow's tag values: longer ones are cut, end marker included
ANY_BLOCK = re.compile(r"<!-- ens_plugin:(?P<prefix>\S+) begin -->.*?<!-- ens_plugin:(?P=prefix) end -->", re.DOTALL)


def merge_description(current: str, summary: str, prefix: str) -> str:
    """Return a run's description with `summary` in it, what a person wrote there unchanged.

    Parameters
    ----------
    current : str
        The present description; may be empty.
    summary : str
        Markdown; cut at 4000 characters.
    prefix : str
        The report's prefix; each prefix owns one block.

    Returns
    -------
    str
        `current` with this prefix's block replaced, or added if `current` consists of such blocks only;
        otherwise `current` itself.

    Examples
    --------
    >>> print(merge_description("", "12 members", "ens"))
    <!-- ens_plugin:ens begin -->
    12 members
    <!-- ens_plugin:ens end -->
    >>> merge_description("My own note", "12 members", "ens")
    'My own note'
    """
    block = _block(summary, prefix)
    own = next((found for found in ANY_BLOCK.finditer(current) if found["prefix"] == prefix), None)
    if own is not None:
        merged = current[: own.start()] + block + current[own.end() :]
    elif not ANY_BLOCK.sub("", current).strip():
        merged = f"{current.rstrip()}\n\n{block}".lstrip()
    else:
        return current
    return merged if len(merged) <= DESCRIPTION_LIMIT else current


def _block(summary: str, prefix: str) -> str:
    # A marker inside the summary would end the block early when it is next replaced.
    text = summary.replace("<!--", "<! --").strip()
    if len(text) > BLOCK_LIMIT:
        text = text[: BLOCK_LIMIT - 4] + " ..."
    return f"<!-- ens_plugin:{prefix} begin -->\n{text}\n<!-- ens_plugin:{prefix} end -->"
