"""Cutting a trained ensemble to fewer members: the smaller model, what it saves, and what it changes."""
