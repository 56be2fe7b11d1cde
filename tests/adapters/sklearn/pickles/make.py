"""Small ensembles of scikit-learn, trained and pickled by the release that runs this script.

For each release, make an environment with nothing but that release, and run in this folder::

    python3.11 -m venv /tmp/release && /tmp/release/bin/pip install scikit-learn==1.6.1
    /tmp/release/bin/python make.py

It writes ``1.6.pickle.xz``.
"""

from __future__ import annotations

import lzma
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RELEASES = ("1.4", "1.5", "1.6", "1.7", "1.8", "1.9")


def training_rows() -> tuple[Any, Any, Any, Any]:
    """Return features of 40 rows, labels, values, and weights of which two are 0."""
    rng = np.random.RandomState(1964)
    X = rng.normal(size=(40, 4)).round(3)
    values = (X[:, 0] + X[:, 1] + rng.normal(size=40)).round(3)
    return (
        X,
        np.array(["a", "b", "c"])[np.digitize(values, [-0.7, 0.7])],
        values,
        np.r_[0.0, 0.0, rng.choice([0.8, 1.0, 1.2], 38)],
    )


def _models() -> dict[str, Any]:
    from sklearn import ensemble

    names = ["RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"]
    options: dict[str, Any] = {"n_estimators": 12, "oob_score": True, "bootstrap": True, "random_state": 7}
    models = {name: getattr(ensemble, name)(**options) for name in names}
    for name in ("BaggingClassifier", "BaggingRegressor"):
        models[name] = getattr(ensemble, name)(max_features=0.75, **options)
    return models


def _write() -> None:
    import sklearn

    X, labels, values, weight = training_rows()
    made = {}
    warnings.simplefilter("ignore")  # few rows have no member that they are out of bag of
    for name, model in _models().items():
        target = labels if "Classifier" in name else values
        made[name] = pickle.dumps(model.fit(X, target))
        made[f"{name}, weighted"] = pickle.dumps(model.fit(X, target, sample_weight=weight))
    release = ".".join(sklearn.__version__.split(".")[:2])
    path = HERE / f"{release}.pickle.xz"
    path.write_bytes(lzma.compress(pickle.dumps(made)))


if __name__ == "__main__":
    _write()
