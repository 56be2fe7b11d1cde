"""Data that are difficult: weights, skewed scores, long tails, few and repeated rows; one module runs all scripts."""
