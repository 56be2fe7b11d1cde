"""Ensembles of small bites, as in the paper of 2017: scores of members, ways of fitting them, smallest sizes."""
