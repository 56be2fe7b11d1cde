"""The gate: policy, evidence, verdict, audit log, and the move of an alias."""

from __future__ import annotations

from ens_plugin.registry.gating.audit import audit_line, audit_to_file, audit_to_log
from ens_plugin.registry.gating.baseline_comparison import compare_intervals, compare_pairs
from ens_plugin.registry.gating.decision import Check
from ens_plugin.registry.gating.gate import gate_request, run_gate
from ens_plugin.registry.gating.policy import REPORT_SCALARS, Requirement, check_share_bounds, read_policy

__all__ = [
    "REPORT_SCALARS",
    "Check",
    "Requirement",
    "audit_line",
    "audit_to_file",
    "audit_to_log",
    "check_share_bounds",
    "compare_intervals",
    "compare_pairs",
    "gate_request",
    "read_policy",
    "run_gate",
]
