"""Model, X and y in, one report out; the arithmetic is in core, the report's own form in report."""
