"""Votes over repeated answers to questions."""
