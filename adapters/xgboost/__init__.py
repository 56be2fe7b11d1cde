"""The adapter of XGBoost's random forests: it reads trees, redraws and proves bags, and checks y."""
