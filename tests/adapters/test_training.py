from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from ens_plugin.adapters import fit_methods, method_arguments
from ens_plugin.errors import InputError

X = np.array([[1.0, 0.0, np.nan], [0.0, 2.0, 3.0]])
Y = np.array([0.0, 1.0])
WEIGHT = np.array([0.5, 2.0])


def test_a_method_is_given_its_data() -> None:
    data = method_arguments({"self": None, "X": X, "y": Y, "sample_weight": WEIGHT})
    assert (data.X, data.y, data.sample_weight) == (X, Y, WEIGHT)
    assert data.rows_for(RandomForestClassifier()) is data.table() is X
    assert method_arguments({"self": None, "X": X}).y is None


def test_a_method_that_classes_share_is_one_site() -> None:
    (site,) = fit_methods(RandomForestClassifier, ExtraTreesClassifier)
    assert (site.owner.__name__, site.name) == ("BaseForest", "fit")


def test_a_class_without_fit_is_refused_because_nothing_would_be_watched() -> None:
    class Trained:
        def train(self) -> None: ...

    with pytest.raises(InputError, match=r"Trained has no method fit\. Return a FitSite"):
        fit_methods(RandomForestClassifier, Trained)
