"""What a run gets of a report: scalars, curves, files, a description."""
