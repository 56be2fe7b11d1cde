"""Forests of Spark ML: everything about that library, and nothing of it elsewhere."""
