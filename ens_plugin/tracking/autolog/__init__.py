"""Autologging: which fits are watched, what is analyzed, what is sent to MLflow, and when."""
