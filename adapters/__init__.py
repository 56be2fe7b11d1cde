"""What each member predicts for rows it was not trained on: one package per model library.

Imported as ``ens_plugin.adapters``.
"""
