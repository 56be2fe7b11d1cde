"""How many trees each output of a multi-label forest needs, with the interval of the worst one.

Run with a path to write the picture of docs/how-to/outputs.md to, ``python examples/reports/outputs.py outputs.png``.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

CURVE_SIZES = np.geomspace(1, 1000, 60)


def main(path: str) -> None:
    X, digit = load_digits(return_X_y=True)
    # Three labels of every picture of a digit, predicted by one forest.
    y = pd.DataFrame({"odd": digit % 2, "above 4": digit > 4, "has a loop": np.isin(digit, [0, 6, 8, 9])}).astype(int)
    forest = RandomForestClassifier(200, random_state=0).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)
    print(report.summary())

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    ax = figure.add_subplot()
    sizes = np.unique(CURVE_SIZES.astype(int) // 2 * 2 + 1)
    for color, (name, found) in zip(("#0072b2", "#d55e00", "#009e73"), report.outputs.items(), strict=True):
        ax.plot(sizes, [100 * found.error_curve.at(size) for size in sizes], color=color, label=name)
    low, high = np.transpose([report.error_curve.interval_at(size) for size in sizes]) * 100
    ax.fill_between(sizes, low, high, color="black", alpha=0.12, label="95 % interval of the worst")
    ax.set(xscale="log", xlabel="Trees", ylabel="0-1 error (%)", ylim=(0, None))
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="outputs.png", help="where the picture is written")
    main(parser.parse_args().path)
