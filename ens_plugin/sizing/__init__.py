"""Cutting of a trained ensemble to fewer members: the smaller model, the costs it saves, and checks of its error."""
