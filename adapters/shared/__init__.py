"""Functions for the adapters of several libraries: threads, labels, draws, leaf counts, split values, refusals."""
