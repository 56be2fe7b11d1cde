"""The command line: the commands, their options, the tables they read and their exit codes."""

from __future__ import annotations

from ens_plugin.cli.inputs import read_table, rows_for_model
from ens_plugin.cli.main import main

__all__ = ["main", "read_table", "rows_for_model"]
