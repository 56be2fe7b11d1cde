"""Autologging: fits are watched, their models analyzed, and the reports logged to MLflow."""
