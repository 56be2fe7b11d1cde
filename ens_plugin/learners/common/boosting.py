"""Detection of unfitted ensembles that would train by boosting, where members correct one another."""

from __future__ import annotations

from typing import Any

from ens_plugin.errors import UnsupportedModelError

__all__ = ["refuse_boosting"]


def refuse_boosting(estimator: Any) -> None:
    """Raise UnsupportedModelError if LightGBM's or XGBoost's parameters request boosting.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> refuse_boosting(RandomForestClassifier())
    """
    libraries = {base.__module__.partition(".")[0] for base in type(estimator).__mro__}
    if "lightgbm" in libraries:
        _refuse_lightgbm(estimator)
    if "xgboost" in libraries:
        _refuse_xgboost(estimator)


def _refuse_lightgbm(estimator: Any) -> None:
    from lightgbm import LGBMModel

    if not isinstance(estimator, LGBMModel):
        return
    parameters = estimator.get_params()
    kind = next((parameters[name] for name in ("boosting", "boost") if name in parameters), estimator.boosting_type)
    if kind not in ("rf", "random_forest"):
        raise UnsupportedModelError(
            f"This {type(estimator).__name__} has boosting_type={kind!r}: its trees correct one another, so they are "
            "not members drawn alike. Set boosting_type='rf', subsample=0.632 and subsample_freq=1."
        )


def _refuse_xgboost(estimator: Any) -> None:
    import xgboost

    forests = (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor)
    if isinstance(estimator, xgboost.XGBModel) and not isinstance(estimator, forests) and estimator.n_estimators != 1:
        raise UnsupportedModelError(
            f"This {type(estimator).__name__} has n_estimators={estimator.n_estimators} boosting rounds (None stands "
            "for 100), and the trees of each round correct those of the rounds before. Set n_estimators=1, "
            "learning_rate=1 and subsample=0.632: the members are then the num_parallel_tree trees of one round. Or "
            "pass an XGBRFClassifier or XGBRFRegressor."
        )
