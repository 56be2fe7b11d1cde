"""The size by a metric of scikit-learn: average precision of a rare digit, out of bag and on rows held out.

Run with a path to draw the picture as well, ``python examples/reports/metrics.py metrics.png``.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

import ens_plugin
from ens_plugin.report.plots import plot_error_curve

TREES = 400


def draw(path: str, report: ens_plugin.EnsembleReport, sizes: list[int], held_out: list[float]) -> None:
    """Draw the curve of the report, and the average precision of the first trees on the held-out rows."""
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_prop_cycle(color=["#0072b2", "#d55e00"])
    plot_error_curve(report.error_curve, ax=axes)
    axes.plot(sizes, held_out, linewidth=1.2, label="held-out rows")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="where the picture is written")
    path = parser.parse_args().path

    X, digit = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, digit == 8, test_size=0.5, random_state=0, stratify=digit)
    forest = RandomForestClassifier(TREES, random_state=0).fit(X_train, y_train)
    report = ens_plugin.analyze(forest, X_train, y_train, metric="average_precision")
    print(report)

    # The mean probabilities of the first 1, 2, 3, ... trees, on rows that the forest was not trained on.
    by_tree = np.stack([tree.predict_proba(X_test)[:, 1] for tree in forest.estimators_])
    by_size = np.cumsum(by_tree, axis=0) / np.arange(1, TREES + 1)[:, None]
    kept = report.recommended_size or TREES
    for size in sorted({kept, TREES}):
        score = average_precision_score(y_test, by_size[size - 1])
        print(f"The first {size} trees, held-out rows: average precision {score:.3f}.")
    if path is not None:
        sizes = np.unique(np.geomspace(1, TREES, 60).astype(int)).tolist()
        draw(path, report, sizes, [float(average_precision_score(y_test, by_size[size - 1])) for size in sizes])
