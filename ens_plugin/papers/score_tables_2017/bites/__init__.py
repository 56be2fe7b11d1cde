"""The size and the number of bites that a budget of training allows, chosen by the tables of 2017."""
