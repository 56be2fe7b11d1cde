"""What the commands of ``ens-plugin`` are made of."""
