"""What the five papers hold beyond the main road, one package a paper; each takes a fitted model, X and y."""
