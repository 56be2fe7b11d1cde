"""Random forests of XGBoost: how trees are read, bags redrawn and proved, y checked."""
