"""Parts of fitted trees that are found again, byte by byte, in the files of a stored model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ens_plugin.adapters.sklearn.trees.outputs import checked_members

__all__ = ["root_bytes"]


def root_bytes(members: Sequence[Any]) -> tuple[bytes, ...]:
    """Return the roots of three trees as they are stored: split, impurity, size and the number of rows drawn.

    Pickle, cloudpickle and skops all store the nodes of a tree as the array is in memory.

    Parameters
    ----------
    members : sequence of fitted estimators

    Returns
    -------
    tuple of bytes
        Empty where members are no trees.
    """
    chosen = [members[member] for member in checked_members(len(members))]
    if not all(hasattr(member, "tree_") for member in chosen):
        return ()
    return tuple(_root(member.tree_) for member in chosen)


def _root(tree: Any) -> bytes:
    nodes = tree.__getstate__()["nodes"]
    # The bytes after the last field have any content.
    last, offset = max(nodes.dtype.fields.values(), key=lambda field: field[1])[:2]
    return bytes(nodes[:1].tobytes()[: offset + last.itemsize])
