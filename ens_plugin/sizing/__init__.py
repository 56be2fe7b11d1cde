"""A trained model cut to a smaller size, what that saves, and what it changes."""
