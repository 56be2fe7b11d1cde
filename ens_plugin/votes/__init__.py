"""Votes over repeated answers to questions, such as samples of a language model, and how many samples are enough."""

from __future__ import annotations

from ens_plugin.votes.analyze import VoteReport, analyze_votes
from ens_plugin.votes.logs import read_log
from ens_plugin.votes.numbers import last_number
from ens_plugin.votes.stopping import is_settled

__all__ = ["VoteReport", "analyze_votes", "is_settled", "last_number", "read_log"]
