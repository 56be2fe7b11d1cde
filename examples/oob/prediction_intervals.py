"""How uncertain a forest's predictions are: standard errors, and intervals for the target, without held-out rows.

Run with a path to write the picture of docs/how-to/uncertainty.md to it:
``python examples/oob/prediction_intervals.py a.png``.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

import ens_plugin


def main(path: str) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=100, random_state=0)
    forest = RandomForestRegressor(400, min_samples_leaf=3, random_state=0).fit(X_train, y_train)
    found = ens_plugin.predict_with_uncertainty(forest, X_train, y_train, X_new)
    frame = found.to_frame()
    print(frame.head().round(0).to_string())
    inside = (frame["lower"] <= y_new) & (y_new <= frame["upper"])
    print(f"{inside.sum()} of {len(frame)} new targets lie in their 95 % intervals.")

    frame, target = (part.iloc[np.argsort(found.prediction)] for part in (frame, y_new))
    places = np.arange(len(frame))
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    ax = figure.add_subplot()
    ax.fill_between(
        places, frame["lower"], frame["upper"], alpha=0.18, linewidth=0, label="95 % interval of the target"
    )
    errors = 2 * frame["standard_error"]
    ax.errorbar(places, frame["prediction"], errors, linewidth=0, elinewidth=1, label="prediction, ± 2 standard errors")
    ax.plot(places, target, ".", color="black", label="new target")
    ax.set(xlabel="New patients, by prediction", ylabel="Progression of diabetes")
    ax.legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="prediction_intervals.png", help="where the picture is written")
    main(parser.parse_args().path)
