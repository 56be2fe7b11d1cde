"""Checks of the rows of an analysis: few distinct rows, training rows passed as held out, copies."""
