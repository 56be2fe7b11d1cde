"""Ensembles that users hand over as arrays or as a list of models: their outputs, bags and labels."""
