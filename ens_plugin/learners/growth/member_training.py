"""Training of ensembles whose final size becomes known only during training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils import check_random_state

from ens_plugin.adapters.sklearn.estimator_checks import refusals
from ens_plugin.errors import BagError, UnsupportedModelError
from ens_plugin.learners.common.boosting import refuse_boosting
from ens_plugin.sizing.truncate import truncate

__all__ = ["NextSize", "TrainedModel", "Trainer", "TrainingRows", "find_trainer"]

_FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
_BAGGING = (BaggingClassifier, BaggingRegressor)
_SUPPORTED = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM's LGBMClassifier and LGBMRegressor "
    "with boosting_type='rf', XGBoost's XGBRFClassifier and XGBRFRegressor, and XGBClassifier and XGBRegressor with "
    "n_estimators=1, also as the last step of a Pipeline"
)
LARGEST_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that members are trained on, and how far training may go.

    Attributes
    ----------
    X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
    y : array-like, shape (n_rows,)
    sample_weight : array-like, shape (n_rows,), or None
    max_size : int
        Most members that may be trained.
    batch : int or None
        Most members to train between two reports of progress, where a library can be interrupted.
    progress : callable
        ``progress(n_members)``, the members of the model so far.
    """

    X: Any
    y: Any
    sample_weight: Any
    max_size: int
    batch: int | None
    progress: Callable[[int], None]

    def fit(self, model: Any, **options: Any) -> Any:
        """Fit a model to these rows, with weights where there are any; raise InputError where it refuses them."""
        weights = {} if self.sample_weight is None else {"sample_weight": self.sample_weight}
        with refusals():
            return model.fit(self.X, self.y, **weights, **options)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, and its training rows in the form that :func:`ens_plugin.analyze` needs.

    Attributes
    ----------
    model : fitted ensemble
    X, y : array-like
    n_members : int
    trained_members : int
        Members trained for it in total, those of models thrown away among them.
    """

    model: Any
    X: Any
    y: Any
    n_members: int
    trained_members: int


NextSize = Callable[[TrainedModel], "int | None"]
# trainer(estimator, rows, first, next_size) trains `first` members, then up to the size that next_size returns, until
# that is None.  `estimator` is unfitted and is changed; the fitted model has the parameters of one that was trained at
# its final size at once.
Trainer = Callable[[Any, TrainingRows, int, NextSize], Any]


def find_trainer(estimator: Any) -> Trainer:
    """Return the function that trains this kind of ensemble to a size that is not known beforehand.

    Raises
    ------
    UnsupportedModelError
        If it is no ensemble of members drawn alike, or of a kind that cannot be grown.
    BagError
        If every member would be trained on every row.
    """
    libraries = {base.__module__.partition(".")[0] for base in type(estimator).__mro__}
    if isinstance(estimator, _FORESTS):
        _check_bootstrap(estimator)
        return _continued
    if isinstance(estimator, _BAGGING):
        # scikit-learn refuses warm starts of bagging with oob_score.
        return _retrained_bagging if estimator.oob_score else _continued_bagging
    if "lightgbm" in libraries:
        return _lightgbm_trainer(estimator)
    if "xgboost" in libraries:
        return _xgboost_trainer(estimator)
    raise UnsupportedModelError(
        f"A {type(estimator).__name__} cannot be grown. {_SUPPORTED}. Boosting cannot be grown: its members correct "
        "one another. Of a search, grow its best_estimator_."
    )


def _check_bootstrap(forest: Any) -> None:
    if not forest.bootstrap:
        raise BagError(
            f"This {type(forest).__name__} has bootstrap=False: every tree would be trained on every row, so there "
            "would be no out-of-bag rows to estimate the size from. Set bootstrap=True."
        )


def _lightgbm_trainer(estimator: Any) -> Trainer:
    from lightgbm import LGBMClassifier, LGBMRegressor

    if not isinstance(estimator, (LGBMClassifier, LGBMRegressor)):
        raise UnsupportedModelError(
            f"A {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: pass an unfitted "
            f"LGBMClassifier or LGBMRegressor with boosting_type='rf'. {_SUPPORTED}."
        )
    refuse_boosting(estimator)
    return _in_one_fit


def _xgboost_trainer(estimator: Any) -> Trainer:
    import xgboost

    if isinstance(estimator, (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor)):
        return _retrained
    if not isinstance(estimator, (xgboost.XGBClassifier, xgboost.XGBRegressor)):
        raise UnsupportedModelError(
            f"A {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: a Booster only exists once it "
            "is trained. Pass an unfitted XGBRFClassifier, XGBRFRegressor, or XGBClassifier or XGBRegressor with "
            f"n_estimators=1, learning_rate=1 and subsample below 1. {_SUPPORTED}."
        )
    refuse_boosting(estimator)
    return _retrained_parallel


def _fix_seed(estimator: Any) -> None:
    """Replace a generator, or scikit-learn's None, by a seed drawn from it, so that every fit draws alike."""
    seed = estimator.random_state
    if not isinstance(seed, Integral):
        estimator.set_params(random_state=int(check_random_state(seed).randint(LARGEST_SEED)))


def _continued(forest: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Train a scikit-learn forest by warm starts: the same trees, to the bit, as in one training."""
    return _warm_started(forest, rows, first, next_size, lambda: None)


def _continued_bagging(bagging: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Train a scikit-learn bagging ensemble by warm starts, and keep the seeds of all members."""
    seeds: list[Any] = []

    def keep_seeds() -> None:
        # A warm start keeps the seeds of its own members only; the bags of the others could not be drawn again.
        seeds.append(bagging._seeds)
        bagging._seeds = np.concatenate(seeds)

    return _warm_started(bagging, rows, first, next_size, keep_seeds)


def _warm_started(
    ensemble: Any, rows: TrainingRows, first: int, next_size: NextSize, after_fit: Callable[[], None]
) -> Any:
    _fix_seed(ensemble)
    kept, size, wanted = ensemble.warm_start, 0, first
    ensemble.set_params(warm_start=True)
    while True:
        for part in _parts(size, wanted, rows.batch):
            with warnings.catch_warnings():
                # scikit-learn warns of balanced weights in warm starts; here every call has the same rows.
                warnings.filterwarnings("ignore", message="class_weight presets", category=UserWarning)
                rows.fit(ensemble.set_params(n_estimators=part))
            after_fit()
            rows.progress(part)
        size = wanted
        larger = next_size(TrainedModel(ensemble, rows.X, rows.y, size, size))
        if larger is None:
            return ensemble.set_params(warm_start=kept)
        wanted = larger


def _parts(size: int, wanted: int, batch: int | None) -> Iterator[int]:
    """Yield the sizes on the way from one to another, at most a batch apart."""
    if batch is not None:
        yield from range(size + batch, wanted, batch)
    yield wanted


def _retrained_bagging(bagging: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    _fix_seed(bagging)
    return _from_scratch(bagging, "n_estimators", rows, rows.X, first, next_size)


def _retrained(model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Train an XGBRF* anew at each size: another round of trees would correct the first."""
    return _xgboost_from_scratch(model, "n_estimators", rows, first, next_size)


def _retrained_parallel(model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    return _xgboost_from_scratch(model, "num_parallel_tree", rows, first, next_size)


def _xgboost_from_scratch(model: Any, parameter: str, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    if model.random_state is not None:
        _fix_seed(model)
    return _from_scratch(model, parameter, rows, _weighted_matrix(model, rows), first, next_size)


def _weighted_matrix(model: Any, rows: TrainingRows) -> Any:
    """Return X with its weights, without which the sums in XGBoost's leaves prove no bags."""
    if rows.sample_weight is None:
        return rows.X
    from xgboost import DMatrix

    options = {"missing": model.missing, "enable_categorical": model.enable_categorical}
    return DMatrix(rows.X, weight=rows.sample_weight, **options)


def _from_scratch(model: Any, parameter: str, rows: TrainingRows, X: Any, first: int, next_size: NextSize) -> Any:
    trained, wanted = 0, first
    while True:
        rows.fit(model.set_params(**{parameter: wanted}))
        rows.progress(wanted)
        trained += wanted
        larger = next_size(TrainedModel(model, X, rows.y, wanted, trained))
        if larger is None:
            return model
        wanted = larger


def _in_one_fit(model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Train LightGBM in a single fit: it cannot continue a forest, but a callback can end it after any tree."""
    from lightgbm import Booster, LGBMClassifier
    from lightgbm.callback import EarlyStopException

    from ens_plugin.adapters.lightgbm.truncation import SIZE_ALIASES

    if model.random_state is not None:
        _fix_seed(model)
    codes = np.unique(rows.y, return_inverse=True)[1].ravel() if isinstance(model, LGBMClassifier) else rows.y
    wanted = first

    def stop_at_size(environment: Any) -> None:
        nonlocal wanted
        size = environment.iteration + 1
        rows.progress(size)
        if size < wanted:
            return
        so_far = Booster(model_str=environment.model.model_to_string())
        larger = next_size(TrainedModel(so_far, rows.X, codes, size, size))
        if larger is None:
            raise EarlyStopException(environment.iteration, [])
        wanted = larger

    sizes = ["n_estimators", *(name for name in SIZE_ALIASES if name in model.get_params())]
    rows.fit(model.set_params(**dict.fromkeys(sizes, rows.max_size)), callbacks=[stop_at_size])
    # The parameters state the final size, as if the model had been trained at it from the start.
    return truncate(model, wanted)
