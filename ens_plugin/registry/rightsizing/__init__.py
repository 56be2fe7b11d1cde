"""A registered version cut to its recommended size, and registered anew."""
