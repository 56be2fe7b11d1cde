"""What each criterion of the recommended size keeps: a rare label of scikit-learn's digits, on rows held out.

Run with a path to draw the picture as well, ``python examples/reports/recommended_size.py sizes.png``.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import ens_plugin

NAMES = {"agreement": "99 % agreement", "error": "error within 0.2 points", "probability": "Brier score within 1 %"}


def draw(path: str, sizes: list[int], scores: list[float], report: ens_plugin.EnsembleReport) -> None:
    """Draw the average precision on the held-out rows by size, with the size that each criterion recommends."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.semilogx(sizes, scores, color="#0072b2")
    for place, found in enumerate(report.criteria):
        if found.size is not None:
            axes.axvline(found.size, color="#555", linestyle=":")
            label = f"{NAMES[found.criterion].partition(' within')[0]}: {found.size} "
            height = (0.34, 0.22, 0.10)[place]
            axes.annotate(
                label,
                (found.size, height),
                xycoords=("data", "axes fraction"),
                ha="right",
                va="center",
                fontsize=9,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.set(xlabel="Trees", ylabel="Average precision, held-out rows")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="where the picture is written")
    path = parser.parse_args().path

    X, digit = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, digit == 8, test_size=0.5, random_state=0, stratify=digit)
    forest = RandomForestClassifier(600, random_state=0).fit(X_train, y_train)
    report = ens_plugin.analyze(forest, X_train, y_train)

    # The mean probabilities of the first 1, 2, 3, ... trees, on rows that the forest was not trained on.
    by_tree = np.stack([tree.predict_proba(X_test)[:, 1] for tree in forest.estimators_])
    by_size = np.cumsum(by_tree, axis=0) / np.arange(1, 601)[:, None]

    print("criterion                   trees    AUC  average precision  log loss")
    for found in report.criteria:
        size = min(found.size or 600, 600)
        probability = by_size[size - 1]
        scores = roc_auc_score(y_test, probability), average_precision_score(y_test, probability)
        loss = log_loss(y_test, np.clip(probability, 0.001, 0.999))
        print(f"{NAMES[found.criterion]:<26}{size:>7}{scores[0]:>7.3f}{scores[1]:>19.3f}{loss:>10.3f}")
    if path is not None:
        drawn = np.unique(np.geomspace(1, 600, 60).astype(int)).tolist()
        draw(path, drawn, [float(average_precision_score(y_test, by_size[size - 1])) for size in drawn], report)
