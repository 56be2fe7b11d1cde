"""What the adapters of several libraries use: threads, labels, counts of leaves, refusals; nothing of one library."""
