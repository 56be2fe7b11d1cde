"""Properties of the rows of an analysis, without the model: hashes, repeats, groups, shares out of bag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.rows.groups import encode_groups, group_chances, largest_group
    from ens_plugin.analysis.rows.hashes import as_table, hash_rows, row_hashes
    from ens_plugin.analysis.rows.repeats import (
        RepeatedRows,
        copies_findings,
        find_repeats,
        record_hashes,
        refuse_copies,
    )

__all__ = [
    "RepeatedRows",
    "as_table",
    "copies_findings",
    "encode_groups",
    "find_repeats",
    "group_chances",
    "hash_rows",
    "largest_group",
    "record_hashes",
    "refuse_copies",
    "row_hashes",
]

_HOME_OF = {
    "RepeatedRows": "ens_plugin.analysis.rows.repeats",
    "as_table": "ens_plugin.analysis.rows.hashes",
    "copies_findings": "ens_plugin.analysis.rows.repeats",
    "encode_groups": "ens_plugin.analysis.rows.groups",
    "find_repeats": "ens_plugin.analysis.rows.repeats",
    "group_chances": "ens_plugin.analysis.rows.groups",
    "hash_rows": "ens_plugin.analysis.rows.hashes",
    "largest_group": "ens_plugin.analysis.rows.groups",
    "record_hashes": "ens_plugin.analysis.rows.repeats",
    "refuse_copies": "ens_plugin.analysis.rows.repeats",
    "row_hashes": "ens_plugin.analysis.rows.hashes",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
