"""The adapter of H2O's Distributed Random Forest, and all other code for that library."""
