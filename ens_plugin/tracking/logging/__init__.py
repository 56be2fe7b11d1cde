"""What a report leaves in a run: scalars, curves, files, a description."""
