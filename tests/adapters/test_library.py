from __future__ import annotations

import subprocess
import sys

import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline

from ens_plugin.adapters import FileReadable, NativeInterface, Trainable, find_library
from tests.extras import lightgbm, xgboost


def test_a_model_belongs_to_the_library_of_its_class() -> None:
    for model, title in ((xgboost.XGBRFClassifier(), "XGBoost"), (lightgbm.LGBMClassifier(), "LightGBM")):
        for kind in (Trainable, FileReadable, NativeInterface):
            library = find_library(model, kind)
            assert library is not None
            assert library.__name__ == title
    derived = type("Own", (RandomForestClassifier,), {})()
    assert find_library(derived, Trainable) is find_library(RandomForestClassifier(), Trainable) is not None


def test_models_of_no_known_kind_belong_to_none() -> None:
    for model in (GradientBoostingClassifier(), make_pipeline(RandomForestClassifier()), 1):
        assert find_library(model, Trainable) is None
    assert find_library(RandomForestClassifier(), FileReadable) is None


@pytest.mark.slow
def test_the_facts_on_a_library_do_not_import_it() -> None:
    code = """
import sys
from ens_plugin.adapters.library import Library
from ens_plugin.adapters.registry import libraries
assert {library.library for library in libraries(Library)} == {
    "econml", "imblearn", "quantile_forest", "sklearn", "xgboost", "lightgbm"
}
assert not {"econml", "imblearn", "quantile_forest", "xgboost", "lightgbm", "mlflow"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
