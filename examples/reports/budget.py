"""What accuracy a megabyte or a millisecond buys, on scikit-learn's digits, and the forest cut to fit both."""

import pickle

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_digits(return_X_y=True)
forest = RandomForestClassifier(500, random_state=0).fit(X, y)
report = ens_plugin.analyze(forest, X, y)
costs = ens_plugin.measure_costs(forest, X)

budget = report.budget(costs, max_bytes=5_000_000, max_latency=0.010)
print(budget)

small = ens_plugin.truncate(forest, max_bytes=5_000_000, max_latency=0.010, X=X)
print(f"\ntruncate keeps {len(small.estimators_)} trees: {len(pickle.dumps(small)):,} bytes")
