"""Stopping rules of dynamic pruning: tables of when a row needs no further member, for votes and probabilities."""
