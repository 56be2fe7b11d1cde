from __future__ import annotations

import subprocess
import sys

import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline

from ens_plugin.adapters import Library, find_library
from tests.extras import lightgbm, xgboost


def test_a_model_belongs_to_the_library_of_its_class() -> None:
    for model, title in ((xgboost.XGBRFClassifier(), "XGBoost"), (lightgbm.LGBMClassifier(), "LightGBM")):
        assert find_library(model).__name__ == title
    derived = type("Own", (RandomForestClassifier,), {})()
    assert find_library(derived).__name__ == find_library(RandomForestClassifier()).__name__ == "SklearnForestAdapter"


def test_models_of_no_known_library_have_the_defaults_of_all() -> None:
    for model in (GradientBoostingClassifier(), make_pipeline(RandomForestClassifier()), 1):
        assert find_library(model) is Library


@pytest.mark.slow
def test_the_facts_on_a_library_do_not_import_it() -> None:
    code = """
import sys
from ens_plugin.adapters.registry import libraries
assert {library.library for library in libraries()} >= {"xgboost", "lightgbm"}
assert not {"econml", "imblearn", "quantile_forest", "xgboost", "lightgbm", "mlflow"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
