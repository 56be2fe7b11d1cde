"""The adapter of Spark ML's random forests, and the code that reads their trees."""
