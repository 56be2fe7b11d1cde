"""Access to the ensemble inside a pipeline, a search, or a wrapper of MLflow or Spark."""
