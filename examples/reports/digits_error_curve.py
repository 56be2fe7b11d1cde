"""The picture at the top of the README: the accuracy of a forest on the digits by its number of trees.

Run with a path to write the picture to, ``python examples/reports/digits_error_curve.py curve.png``.
"""

import argparse

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import ens_plugin


def draw(path: str) -> ens_plugin.EnsembleReport:
    """Train a forest, analyse it and write the picture of its accuracy."""
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(n_estimators=800, random_state=0, n_jobs=-1).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)
    figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    report.plot(axes)
    # What is written in the picture is kept beside it, so that a test can read it.
    written = "; ".join(text.get_text() for text in axes.texts)
    figure.savefig(path, dpi=150, metadata={"Description": written})
    plt.close(figure)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="error_curve.png", help="where the picture is written")
    print(draw(parser.parse_args().path).summary())
