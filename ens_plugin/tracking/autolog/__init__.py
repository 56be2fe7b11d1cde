"""A report with every fit: which fits are watched, what is analyzed, what is sent, and by whom."""
