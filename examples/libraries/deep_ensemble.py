"""A deep ensemble: 15 small networks of PyTorch that differ in their random starts, judged on rows held out.

Each network was trained on all training rows, so that no row is out of bag, and held-out rows take their place. Models
of Keras are wrapped in the same way.
"""

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import ens_plugin

try:
    import torch
except ImportError:
    print("This example needs PyTorch, which is not installed: pip install torch")
    sys.exit()

N_NETWORKS = 15
N_STEPS = 150


class Network:
    """A module of PyTorch with the methods of a classifier of scikit-learn."""

    def __init__(self, seed: int, n_columns: int, classes: Any) -> None:
        torch.manual_seed(seed)
        self.classes_ = classes
        self.module = torch.nn.Sequential(
            torch.nn.Linear(n_columns, 32), torch.nn.ReLU(), torch.nn.Linear(32, len(classes))
        )

    def fit(self, X: Any, y: Any) -> "Network":
        """Train the module on all rows, and return the network."""
        rows, codes = as_tensor(X), torch.as_tensor(np.searchsorted(self.classes_, y))
        optimiser = torch.optim.Adam(self.module.parameters(), lr=0.01)
        for _ in range(N_STEPS):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(self.module(rows), codes).backward()
            optimiser.step()
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, shape (n_rows, n_labels)."""
        with torch.no_grad():
            return torch.softmax(self.module(as_tensor(X)), dim=1).numpy().astype(np.float64)

    def predict(self, X: Any) -> Any:
        """Return labels, shape (n_rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def as_tensor(X: Any) -> Any:
    """Return rows as the module takes them."""
    return torch.as_tensor(np.asarray(X, dtype=np.float32) / 16.0)


if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    networks = [Network(seed, X.shape[1], np.unique(y)).fit(X_train, y_train) for seed in range(N_NETWORKS)]
    ensemble = ens_plugin.CustomEnsemble.from_estimators(networks, None)
    report = ens_plugin.analyze(ensemble, X_test, y_test, data="holdout", random_state=0)
    print(report)
