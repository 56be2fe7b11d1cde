"""Checks of the rows that an analysis is given: what they find, and what they wrongly find."""
