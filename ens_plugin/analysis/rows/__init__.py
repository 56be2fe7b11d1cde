"""What the rows of an analysis are: repeated, in groups, out of bag or not; no model is read here."""
