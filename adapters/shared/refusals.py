"""The messages for models that no adapter accepts, and the models that are supported."""

from __future__ import annotations

from os import PathLike

from ens_plugin.core.validation import with_article

__all__ = ["GROWABLE", "no_adapter", "several_outputs", "several_targets"]

GROWABLE = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM's LGBMClassifier and LGBMRegressor "
    "with boosting_type='rf', XGBoost's XGBRFClassifier and XGBRFRegressor, and XGBClassifier and XGBRegressor with "
    "n_estimators=1, also as the last step of a Pipeline"
)

_SUPPORTED = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM in rf mode, XGBoost's parallel "
    "trees and Spark ML's RandomForest*, each also inside a pipeline or a search, ens_plugin.CustomEnsemble, and "
    "forests of imbalanced-learn, quantile-forest, scikit-survival, EconML, YDF and H2O. For yet another library, "
    "write an adapter, which help(ens_plugin.adapters.EnsembleAdapter) describes: register it with "
    "ens_plugin.register_adapter for this Python process, or install it as a package with an entry point of the group "
    "'ens_plugin.adapters' for the command line and every other process."
)
_ARRAYS = (
    "pass what its trees predict for held-out rows, as arrays: ens_plugin.CustomEnsemble(outputs, None, "
    "aggregation=...)."
)
_CUML = (
    "Convert the forest to one of scikit-learn, with model.as_sklearn() where its release has that, and pass rows that "
    f'it was not trained on, with {{data="holdout"}}: its bags are drawn on the GPU. Or {_ARRAYS}'
)
_H2O = f"Pass the forest that h2o.get_model or h2o.load_model returns. Of a forest in a MOJO file, {_ARRAYS}"
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
# Wrappers around ensembles, whose own predictions are no means over members.
_WRAPPERS = {
    "CalibratedClassifierCV": "A CalibratedClassifierCV maps the mean of an ensemble's members to other "
    "probabilities, so "
    "its own predictions are no mean over members. Pass the ensemble inside it: with ensemble=False or a fitted one, "
    "model.calibrated_classifiers_[0].estimator; else each has its own, trained on the rows of its folds. Its size is "
    "judged before the calibration.",
    "TransformedTargetRegressor": "A TransformedTargetRegressor transforms the mean of an ensemble's members, so its "
    "own predictions are no mean over members. Pass model.regressor_ with "
    "model.transformer_.transform(y.reshape(-1, 1)).ravel() as y: the errors are then in the unit of the transformed "
    "y.",
    "VotingClassifier": "{voting}",
    "VotingRegressor": "{voting}",
    "StackingClassifier": "{stacking}",
    "StackingRegressor": "{stacking}",
    "ClassifierChain": "{chain}",
    "RegressorChain": "{chain}",
    "OneVsRestClassifier": "A OneVsRestClassifier compares ensembles of two labels, one for each label against the "
    "others, so its own predictions are no mean over members. Pass each alone: model.estimators_[k] with "
    "model.label_binarizer_.transform(y).toarray()[:, k] as y. Forests and bagged trees take all labels without it.",
    "OneVsOneClassifier": "A OneVsOneClassifier lets one ensemble for each pair of labels vote, so its own predictions "
    "are no mean over members. Pass each alone: model.estimators_[k] with the rows of the k-th pair (a, b) of "
    "itertools.combinations(model.classes_, 2), X[(y == a) | (y == b)], and (y == b)[(y == a) | (y == b)].astype(int) "
    "as y. Forests and bagged trees take all labels without it.",
    "OutputCodeClassifier": "An OutputCodeClassifier compares the outputs of several ensembles with a code for each "
    "label, so its own predictions are no mean over members. Pass each alone: model.estimators_[k] with "
    "model.code_book_[numpy.searchsorted(model.classes_, y), k].astype(int) as y. Forests and bagged trees take all "
    "labels without it.",
    "SelfTrainingClassifier": "A SelfTrainingClassifier trains its ensemble on labels that the ensemble predicted, so "
    "out-of-bag rows are judged by labels that may be wrong. Pass model.estimator_ with rows that it was not trained "
    'on, whose labels are known, and {data="holdout"}.',
    "TunedThresholdClassifierCV": "{threshold}",
    "FixedThresholdClassifier": "{threshold}",
    "SelectFromModel": "A SelectFromModel chooses columns and predicts nothing. Pass the ensemble by which it chose "
    "them, model.estimator_, or the pipeline that ends in an ensemble trained on the chosen columns.",
    "SequentialFeatureSelector": "A SequentialFeatureSelector chooses columns, predicts nothing and keeps no fitted "
    "ensemble. Pass the pipeline that ends in an ensemble trained on the chosen columns, or train one on "
    "model.transform(X).",
}
_VOTING = (
    "The models of a {name} were each trained on all rows and are not drawn alike, so there are neither out-of-bag "
    "rows "
    "nor a size to choose. Pass the ensembles in model.estimators_ one by one. If they are alike, forests that differ "
    "in random_state only, their trees are one larger forest: train that with n_estimators as large as their sum. For "
    "models that you drew at random from one population, pass "
    "ens_plugin.CustomEnsemble.from_estimators(model.estimators_, None) with held-out rows."
)
_STACKING = (
    "A {name} puts another model on top of its estimators, so its predictions are no mean over members. Pass the "
    "ensembles in model.estimators_ one by one."
)
_THRESHOLD = (
    "A {name} cuts the mean of an ensemble's members at a threshold of its own, so its labels are others than those of "
    "which the error is estimated. Pass model.estimator_ with the same rows. For the error at the threshold, also pass "
    "metric=lambda y, mean: ((mean[:, 1] >= {cut}) != (y == model.classes_[1])).mean()."
)
_CHAIN = (
    "In a {name}, each model takes the outputs before its own as further columns: in training the true ones, and in "
    "use those that it predicts. The error of one model depends on those before, and none is a mean over members. "
    "Train one forest on all outputs, or a MultiOutputClassifier or MultiOutputRegressor, which ens_plugin.analyze "
    "takes."
)


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
            f"{str(model)!r:.80} is {with_article(name)}, not a fitted ensemble. Load the model first, with "
            "joblib.load or mlflow.sklearn.load_model for example, or use the command line, which takes paths and "
            "URIs: ens-plugin analyze MODEL."
        )
    if isinstance(model, type):
        return (
            f"{model.__name__} is a class, not a fitted ensemble. Create one and fit it: {model.__name__}().fit(X, y)."
        )
    if name in _WRAPPERS and type(model).__module__.startswith("sklearn."):
        shared = {"{voting}": _VOTING, "{stacking}": _STACKING, "{chain}": _CHAIN, "{threshold}": _THRESHOLD}
        text = shared.get(_WRAPPERS[name], _WRAPPERS[name])
        cut = "model.best_threshold_" if name.startswith("Tuned") else "model.threshold"
        return text.replace("{name}", name).replace("{cut}", cut)
    if any(cls.__name__ in _BOOSTING and cls.__module__.startswith("sklearn.") for cls in type(model).__mro__):
        return f"No adapter accepts {with_article(name)}. {_NO_SIZE} {_SUPPORTED}"
    if name in ("MultiOutputClassifier", "MultiOutputRegressor") and hasattr(model, "estimators_"):
        return several_outputs(name, len(model.estimators_))
    home = type(model).__module__
    if home.startswith("ydf."):
        return (
            f"{with_article(name, 'A')} of YDF is not covered: of YDF's models RandomForestModel is, on held-out rows. "
            f"{_NO_SIZE if 'GradientBoosted' in name else _SUPPORTED}"
        )
    library = home.partition(".")[0]
    if library == "h2o":
        return (
            f"{with_article(name, 'A')} of H2O is not covered: of H2O's models H2ORandomForestEstimator is, on "
            f"held-out rows. {_NO_SIZE if 'GradientBoosting' in name or 'XGBoost' in name else _H2O}"
        )
    if library == "cuml":
        return f"No adapter accepts {with_article(name)} of cuml. {_CUML}"
    if home.startswith("pyspark.ml."):
        return (
            f"{with_article(name, 'A')} of Spark ML is not covered: of Spark ML's models "
            "RandomForestClassificationModel and RandomForestRegressionModel are, alone, as the last stage of a "
            f"PipelineModel, or as the best of a search. {_NO_SIZE if name.startswith('GBT') else _SUPPORTED}"
        )
    full_name = with_article(f"{home}.{name}")
    return f"No adapter accepts {full_name}. {_SUPPORTED}"


def several_outputs(name: str, n_outputs: int, what: str = "This function") -> str:
    """Return the message that a function takes models of one output only, with what to do instead.

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


def several_targets(name: str, n_outputs: int) -> str:
    """Return the message that an ensemble of a library other than scikit-learn was trained on several columns of y.

    Examples
    --------
    >>> several_targets("XGBRFRegressor", 2)[:50]
    'This XGBRFRegressor was trained on 2 columns of y,'
    """
    return (
        f"This {name} was trained on {n_outputs} columns of y, and only models of one column can be analysed. "
        "Train one model for each column, or a MultiOutputClassifier or MultiOutputRegressor of such models, which "
        "ens_plugin.analyze takes. If the columns indicate one label of several, train on y.argmax(axis=1)."
    )
