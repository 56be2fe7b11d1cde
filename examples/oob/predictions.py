"""The picture of docs/how-to/oob.md: what a forest predicts for its training rows, with all trees and out of bag.

Run with a path to write the picture to, ``python examples/oob/predictions.py oob.png``.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin


def draw(path: str) -> ens_plugin.OobPredictions:
    """Train a forest, predict its training rows both ways, and write the picture."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(n_estimators=200, random_state=0, n_jobs=-1).fit(X, y)
    found = ens_plugin.oob_predictions(forest, X, y)

    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    shown = {
        "all trees, most of them trained on the row": forest.predict(X),
        "out-of-bag trees only": found.values,
    }
    for ax, (name, predicted) in zip(axes, shown.items(), strict=True):
        explained = 1.0 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
        ax.scatter(predicted, y, s=9, alpha=0.6)
        ax.axline((150.0, 150.0), slope=1.0, color="grey", linewidth=1)
        ax.set(title=f"{name}\nR² = {explained:.2f}", xlabel="predicted")
    axes[0].set_ylabel("disease progression")
    figure.savefig(path, dpi=120)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="oob_predictions.png", help="where the picture is written")
    print(draw(parser.parse_args().path).to_frame().head())
