"""Which labels of a forest are proved to be those of infinitely many trees.

Run with a path to draw the picture as well, ``python examples/learners/certificate.py certificate.png``.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import ens_plugin
from ens_plugin.core.certificate import is_settled

N_TREES, LEVEL = 501, 0.01


def needed_share(n_votes: int) -> float:
    """Return the smallest share of so many votes on two labels that settles a label, in percent; nan if none does."""
    votes = np.arange(n_votes // 2, n_votes + 1)
    settled = votes[is_settled(np.stack([votes, n_votes - votes], axis=1), LEVEL)]
    return 100 * settled.min() / n_votes if settled.size else np.nan


def draw(path: str, votes: np.ndarray) -> None:
    """Draw the share of votes for the second label on some rows, tree by tree, and where a label is settled."""
    trees = np.arange(1, N_TREES + 1)
    bound = np.array([needed_share(n_votes) for n_votes in trees.tolist()])
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.fill_between(trees, bound, 100, color="#0072b2", alpha=0.15, linewidth=0)
    axes.fill_between(trees, 100 - bound, 0, color="#0072b2", alpha=0.15, linewidth=0)
    axes.semilogx(trees, 100 * np.cumsum(votes, axis=0) / trees[:, None], color="#555", linewidth=1)
    axes.text(150, 74, "settled: benign", fontsize=9)
    axes.text(150, 22, "settled: malignant", fontsize=9)
    axes.set_xticks([1, 10, 100, 500], ["1", "10", "100", "500"])
    axes.set(xlabel="Trees", ylabel="Votes for benign, %", xlim=(1, N_TREES), ylim=(0, 100))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="where the picture is written")
    path = parser.parse_args().path

    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)

    pruned = ens_plugin.DynamicPruningClassifier(
        RandomForestClassifier(N_TREES, random_state=0), rule="certified", confidence=1 - LEVEL
    ).fit(X_train, y_train)
    found = pruned.query(X_test)
    settled = found.n_queries < pruned.n_members_
    print(
        f"{settled.sum()} of {settled.size} test rows are settled, by {np.median(found.n_queries):.0f} trees (median)."
    )

    larger = RandomForestClassifier(5000, random_state=1).fit(X_train, y_train).predict(X_test)
    print(f"Of these, {np.count_nonzero(found.labels[settled] != larger[settled])} have another label from 5000 trees;")
    print(f"of the other rows, {np.count_nonzero(found.labels[~settled] != larger[~settled])}.")

    growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X_train, y_train, certificate=LEVEL)
    print(growth.reason)

    if path is not None:
        trees = pruned.estimator_.estimators_
        shown = np.argsort(found.n_queries, kind="stable")[[0, 120, -12, -6, -3, -1]]
        draw(path, np.stack([tree.predict(X_test[shown]) for tree in trees]))
