"""Ensembles that users pass as arrays or as a list of models: their outputs, bags and labels."""
