"""Adapters of EconML's regression forests, and all other code for that library."""
