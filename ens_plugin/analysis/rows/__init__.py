"""Properties of the rows of an analysis, without the model: hashes, repeats, groups, shares out of bag."""

from __future__ import annotations

from ens_plugin.analysis.rows.groups import encode_groups
from ens_plugin.analysis.rows.hashes import as_table, hash_rows, row_hashes
from ens_plugin.analysis.rows.repeats import RepeatedRows, copies_findings, find_repeats, record_hashes, refuse_copies

__all__ = [
    "RepeatedRows",
    "as_table",
    "copies_findings",
    "encode_groups",
    "find_repeats",
    "hash_rows",
    "record_hashes",
    "refuse_copies",
    "row_hashes",
]
