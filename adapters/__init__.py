"""What each member said about rows it never saw: one file per model library.

Imported as ``ens_plugin.adapters``.
"""
