"""When enough members have voted on a row: the rules of dynamic pruning, for votes and for probabilities."""
