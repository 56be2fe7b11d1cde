"""Random forests of LightGBM: everything about that library, and nothing of it elsewhere."""
