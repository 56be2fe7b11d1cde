"""Models that no adapter accepts: why, what they hold that an adapter accepts, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

from ens_plugin.adapters.members import SUPPORTED, several_outputs

# Steps from attribute to attribute, or into a list, in which an ensemble inside a model is looked for, and items of a
# list: without an end, a model that holds its rows would be searched through.
MOST_STEPS = 3
_ARRAYS = (
    "pass what its trees predict for held-out rows, as arrays: ens_plugin.CustomEnsemble(outputs, None, "
    "aggregation=...)."
)
# Of other libraries that keep no bags.
_WITHOUT_BAGS = {
    "cuml": "Convert the forest to one of scikit-learn, with model.as_sklearn() where its release has that, and pass "
    'rows that it was not trained on, with data="holdout": its bags are drawn on the GPU. Or ' + _ARRAYS,
    "h2o": f"Of a forest of H2O, {_ARRAYS}",
}
_BOOSTING = (
    "Members of boosting correct one another, so no error curve describes them, and fewer or more of them make "
    "another model."
)
# By the class of a model, what its ensemble was trained on, or what it is that no ensemble alone is.
_VOTING = (
    "Its models were each trained on all rows and are not drawn alike, so there are neither out-of-bag rows nor a size "
    "to choose. Pass the ensembles one by one. If they are forests that differ in random_state only, their trees are "
    "one larger forest: train that with n_estimators as large as their sum. For models that you drew at random from "
    "one population, pass ens_plugin.CustomEnsemble.from_estimators(model.estimators_, None) with held-out rows."
)
_CHAIN = (
    "Each of its models takes the outputs before its own as further columns. Train one forest on all outputs, or a "
    "MultiOutputClassifier or MultiOutputRegressor, which ens_plugin.analyze takes."
)
_WITHOUT = "Forests and bagged trees take all labels without it."
_THRESHOLD = (
    "It cuts their mean at a threshold of its own. For the error at the threshold, also pass metric=lambda y, mean: "
    "((mean[:, 1] >= model.{cut}) != (y == model.classes_[1])).mean()."
)
_INSTEAD = {
    "BootstrapModelAveragingClassifier": "It adds up joint probabilities, of which a few models may hold nearly all, "
    "and error curves are known for means of votes, probabilities or scores only. Its own settled_rows(X) and "
    "models_to_settle(X) give its distance from infinitely many models.",
    "ClassifierChain": _CHAIN,
    "FixedThresholdClassifier": _THRESHOLD.format(cut="threshold"),
    "OneVsOneClassifier": _WITHOUT,
    "OneVsRestClassifier": _WITHOUT,
    "OutputCodeClassifier": _WITHOUT,
    "RegressorChain": _CHAIN,
    "SelfTrainingClassifier": "It was trained on labels that it predicted itself, which may be wrong: pass rows that "
    'it was not trained on, whose labels are known, and data="holdout".',
    "TransformedTargetRegressor": "Its target is model.transformer_.transform(y.reshape(-1, 1)).ravel(): the errors "
    "are then in the unit of the transformed y.",
    "TunedThresholdClassifierCV": _THRESHOLD.format(cut="best_threshold_"),
    "VotingClassifier": _VOTING,
    "VotingRegressor": _VOTING,
}


def no_adapter(model: object, is_known: Callable[[object], bool]) -> str:
    """Return why no adapter accepts a model, and what to do instead; `is_known` tells what adapters do accept."""
    name, home = type(model).__name__, type(model).__module__
    library = home.partition(".")[0]
    if isinstance(model, (str, PathLike)):
        return (
            f"{str(model)!r:.80} is of type {name}, not a fitted ensemble. Load the model first, with "
            "joblib.load or mlflow.sklearn.load_model for example, or use the command line, which takes paths and "
            "URIs: ens-plugin analyze MODEL."
        )
    if isinstance(model, type):
        return (
            f"{model.__name__} is a class, not a fitted ensemble. Create one and fit it: {model.__name__}().fit(X, y)."
        )
    if name in ("MultiOutputClassifier", "MultiOutputRegressor") and hasattr(model, "estimators_"):
        return several_outputs(name, len(model.estimators_))
    held = next(_held_ensembles(model, is_known, "model", MOST_STEPS), None)
    # Of its class: LightGBM's CVBooster returns a function for every name.  Spark's models transform.
    is_model = library == "pyspark" or any(callable(getattr(type(model), own, None)) for own in ("predict", "fit"))
    if held is None and not is_model and (home == "builtins" or hasattr(type(model), "__len__")):
        return (
            f"The model is of type {name}{'' if home == 'builtins' else f' of {library}'}, which has no predict of its "
            "own, so it is no trained ensemble. Pass one, such as RandomForestClassifier().fit(X, y) returns."
        )
    found = "" if held is None else _inside(name, *held)
    of_class = [own.__name__ for own in type(model).__mro__]
    if any("Boost" in own or own.startswith("GBT") for own in of_class):
        found = found or f"{_BOOSTING} {SUPPORTED}"
    found = f"{found} {_INSTEAD.get(name, '')}".strip() or _WITHOUT_BAGS.get(library, "")
    return f"No adapter accepts {name} of {library}. {found or SUPPORTED}"


def _inside(name: str, place: str, ensemble: object) -> str:
    return (
        f"This {name} keeps its {type(ensemble).__name__} as {place}, and what it predicts itself is not known to be "
        "the mean of that ensemble's members. Pass that, with the rows and the target that it was trained on."
    )


def _held_ensembles(
    holder: object, is_known: Callable[[object], bool], place: str, n_steps: int
) -> Iterator[tuple[str, Any]]:
    """Yield the places inside a model, and what is there, where an adapter accepts it; what was fitted comes first."""
    if isinstance(holder, (list, tuple)):
        parts = [(f"{place}[{item}]", part) for item, part in enumerate(holder[:MOST_STEPS])]
    else:
        kept = getattr(holder, "__dict__", {})
        # What a fit made comes before what it was made from.
        names = sorted(kept, key=lambda name: not name.endswith("_")) if isinstance(kept, dict) else []
        parts = [(f"{place}.{name}", kept[name]) for name in names]
    for inside, part in parts:
        if is_known(part):
            yield inside, part
        elif n_steps > 1:
            yield from _held_ensembles(part, is_known, inside, n_steps - 1)
