"""The command line: the same verbs as the Python API, their options, tables and exit codes."""
