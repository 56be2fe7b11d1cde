"""Other tools that show how the error depends on the number of trees, on the same problems."""
