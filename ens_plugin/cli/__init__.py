"""The command line: the commands, their options, the tables they read and their exit codes."""
