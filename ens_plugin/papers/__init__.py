"""What the five papers hold beyond the main road, one package a paper; nothing else is built on it."""
