"""Choice of the size and the number of bites (small samples that members are trained on), by the tables of 2017."""
