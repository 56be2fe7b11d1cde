"""Out-of-bag rows as a primitive: predictions and their uncertainty, importance of columns, searches without folds."""
