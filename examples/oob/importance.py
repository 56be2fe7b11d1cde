"""Which columns a forest's error depends on, from its training rows alone.

Run with a path to write the picture of docs/how-to/importance.md to,
``python examples/oob/importance.py importance.png``.
"""

from __future__ import annotations

import argparse

from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin


def main(path: str) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(100, min_samples_leaf=3, random_state=0).fit(X, y)
    found = ens_plugin.oob_permutation_importance(forest, X, y)
    print(f"Out-of-bag mean squared error: {found.error:.0f}. It rises when a column is permuted by:")
    print(found.to_frame().sort_values("importances_mean", ascending=False).round(0).to_string())
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    found.plot(ax=figure.add_subplot())
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="importance.png", help="where the picture is written")
    main(parser.parse_args().path)
