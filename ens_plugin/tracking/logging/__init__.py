"""The parts of a report that are logged to an MLflow run: scalars, curves, files, a description."""
