"""Counts and sums by row: bags, members' outputs, weights, groups; tallies of disjoint rows merge."""
