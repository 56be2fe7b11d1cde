"""Cutting a logged model to its recommended size, as a new version."""
