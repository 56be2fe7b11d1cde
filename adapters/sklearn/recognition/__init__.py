"""Recognition of training rows that are passed as held out, by what trees and other members store of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.sklearn.recognition.known_rows import (
        are_outputs_of_known_rows,
        are_shuffled_rows,
        hold_node_values,
        show_node_values,
    )

__all__ = ["are_outputs_of_known_rows", "are_shuffled_rows", "hold_node_values", "show_node_values"]

_HOME_OF = {
    "are_outputs_of_known_rows": "ens_plugin.adapters.sklearn.recognition.known_rows",
    "are_shuffled_rows": "ens_plugin.adapters.sklearn.recognition.known_rows",
    "hold_node_values": "ens_plugin.adapters.sklearn.recognition.known_rows",
    "show_node_values": "ens_plugin.adapters.sklearn.recognition.known_rows",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
