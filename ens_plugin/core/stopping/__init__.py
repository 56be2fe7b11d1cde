"""Stopping rules of dynamic pruning: tables of when a row needs no further member, for votes and probabilities."""

from __future__ import annotations

from ens_plugin.core.stopping.soft_votes import (
    DuelTable,
    LeadTable,
    RowPrior,
    duel_table,
    even_prior,
    lead_table,
    score_table,
    symmetric,
    top_two,
    vote_share_table,
)
from ens_plugin.core.stopping.votes import (
    StoppingTable,
    VotePrior,
    checkpoints,
    expected_stopping,
    learned_prior,
    stopping_table,
    uniform_prior,
)

__all__ = [
    "DuelTable",
    "LeadTable",
    "RowPrior",
    "StoppingTable",
    "VotePrior",
    "checkpoints",
    "duel_table",
    "even_prior",
    "expected_stopping",
    "lead_table",
    "learned_prior",
    "score_table",
    "stopping_table",
    "symmetric",
    "top_two",
    "uniform_prior",
    "vote_share_table",
]
