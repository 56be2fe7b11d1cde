"""May a registered version have an alias? Its evidence, the verdict, the audit and the move."""
