"""The messages for models that no adapter accepts, and the models that are supported."""

from __future__ import annotations

from os import PathLike

__all__ = ["GROWABLE", "no_adapter", "several_outputs"]

GROWABLE = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM's LGBMClassifier and LGBMRegressor "
    "with boosting_type='rf', XGBoost's XGBRFClassifier and XGBRFRegressor, and XGBClassifier and XGBRegressor with "
    "n_estimators=1, also as the last step of a Pipeline"
)

_SUPPORTED = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM in rf mode, XGBoost's parallel "
    "trees and Spark ML's RandomForest*, each also inside a pipeline or a search, and ens_plugin.CustomEnsemble. For "
    "another library register an adapter with ens_plugin.register_adapter."
)
_BOOSTING = (
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
)
_NO_SIZE = (
    "Members of boosting correct one another, so no error curve describes them, and fewer or more of them make "
    "another model."
)
# Ensembles of this package that no adapter can read.
_NO_MEANS = {
    "BootstrapModelAveragingClassifier": "A BootstrapModelAveragingClassifier adds up joint probabilities, of which a "
    "few models may hold nearly all. Error curves are known for means of votes, probabilities or scores only. Its own "
    "settled_rows(X) and models_to_settle(X) give its distance from infinitely many models.",
}


def no_adapter(model: object) -> str:
    """Return why no adapter accepts a model, and what to do instead.

    Examples
    --------
    >>> no_adapter("models:/churn/7")[:50]
    "'models:/churn/7' is a str, not a fitted ensemble."
    """
    name = type(model).__name__
    if name in _NO_MEANS:
        return _NO_MEANS[name]
    if isinstance(model, (str, PathLike)):
        return (
            f"{str(model)!r:.80} is a {name}, not a fitted ensemble. Load the model first, with joblib.load or "
            "mlflow.sklearn.load_model for example, or use the command line, which takes paths and URIs: ens-plugin "
            "analyze MODEL."
        )
    if isinstance(model, type):
        return (
            f"{model.__name__} is a class, not a fitted ensemble. Create one and fit it: {model.__name__}().fit(X, y)."
        )
    if any(cls.__name__ in _BOOSTING and cls.__module__.startswith("sklearn.") for cls in type(model).__mro__):
        return f"No adapter accepts a {name}. {_NO_SIZE} {_SUPPORTED}"
    if name in ("MultiOutputClassifier", "MultiOutputRegressor") and hasattr(model, "estimators_"):
        return several_outputs(name, len(model.estimators_))
    home = type(model).__module__
    if home.startswith("pyspark.ml."):
        return (
            f"A {name} of Spark ML is not covered: of Spark ML's models RandomForestClassificationModel and "
            "RandomForestRegressionModel are, alone, as the last stage of a PipelineModel, or as the best of a search. "
            f"{_NO_SIZE if name.startswith('GBT') else _SUPPORTED}"
        )
    return f"No adapter accepts a {home}.{name}. {_SUPPORTED}"


def several_outputs(name: str, n_outputs: int, what: str = "This function") -> str:
    """Return that something takes models of one output only, and what to do instead.

    Examples
    --------
    >>> several_outputs("RandomForestRegressor", 3)[:61]
    'This RandomForestRegressor predicts 3 outputs. This function '
    """
    if n_outputs == 1:
        return f"This {name} has a single output. Pass its only estimator, model.estimators_[0], with y of one column."
    return (
        f"This {name} predicts {n_outputs} outputs. {what} takes one: pass ens_plugin.split_outputs(model)[k], which "
        "predicts output k alone, with y[:, k]. (ens_plugin.analyze, grow and truncate take the whole model.)"
    )
