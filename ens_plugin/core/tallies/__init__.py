"""What is counted, row by row: bags, members' outputs, weights, groups; tallies of disjoint rows merge."""
