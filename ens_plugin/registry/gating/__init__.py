"""The gate: policy, evidence, verdict, audit log, and the move of an alias."""
