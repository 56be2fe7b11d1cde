"""How far an estimate may be from the truth: intervals, jackknives, paired differences."""
