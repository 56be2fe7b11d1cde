"""Time and memory: of an analysis, of each of its stages, of the first use, of MLflow and of Spark."""
