"""What casts doubt on an analysis once it is made: few distinct rows, rows taken for held out, unlike rows."""
