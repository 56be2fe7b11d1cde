"""Models inside other models, such as pipelines, searches and wrappers of MLflow and Spark, taken out."""
