"""Stopping rules of dynamic pruning: tables of when a row needs no further member, for votes and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
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

_HOME_OF = {
    "DuelTable": "ens_plugin.core.stopping.soft_votes",
    "LeadTable": "ens_plugin.core.stopping.soft_votes",
    "RowPrior": "ens_plugin.core.stopping.soft_votes",
    "StoppingTable": "ens_plugin.core.stopping.votes",
    "VotePrior": "ens_plugin.core.stopping.votes",
    "checkpoints": "ens_plugin.core.stopping.votes",
    "duel_table": "ens_plugin.core.stopping.soft_votes",
    "even_prior": "ens_plugin.core.stopping.soft_votes",
    "expected_stopping": "ens_plugin.core.stopping.votes",
    "lead_table": "ens_plugin.core.stopping.soft_votes",
    "learned_prior": "ens_plugin.core.stopping.votes",
    "score_table": "ens_plugin.core.stopping.soft_votes",
    "stopping_table": "ens_plugin.core.stopping.votes",
    "symmetric": "ens_plugin.core.stopping.soft_votes",
    "top_two": "ens_plugin.core.stopping.soft_votes",
    "uniform_prior": "ens_plugin.core.stopping.votes",
    "vote_share_table": "ens_plugin.core.stopping.soft_votes",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
