"""Adapters, one package for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""
