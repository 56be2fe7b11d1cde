"""Parts of a report computed from tallies: error curves, sizes, bias and variance, by kind of loss."""
