"""What is assumed of a row: the distribution of its members' outputs, and what majorities of them do."""
