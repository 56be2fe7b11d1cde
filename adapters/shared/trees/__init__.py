"""Trees of every library in one flat form: the walk to their leaves, counts of rows in leaves, values of splits."""
