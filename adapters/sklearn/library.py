"""Training, logging and checks of scikit-learn's ensembles, for the parts of the package outside the adapters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from ens_plugin.adapters.library import (
    FitSite,
    Flavor,
    Library,
    NextSize,
    TrainedModel,
    Trainer,
    TrainingRows,
    fit_methods,
    fix_seed,
    retrain,
)
from ens_plugin.adapters.sklearn.forest import find_damage
from ens_plugin.errors import BagError

_FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
_BAGGING = (BaggingClassifier, BaggingRegressor)


def _logged_options(flavors: Mapping[str, Any]) -> dict[str, Any]:
    return {
        # In MLflow's default format, forests cannot be loaded again.
        "serialization_format": flavors["sklearn"].get("serialization_format", "cloudpickle"),
        "pyfunc_predict_fn": flavors["python_function"].get("predict_fn", "predict"),
    }


class Sklearn(Library):
    """The library scikit-learn: its forests and bagging ensembles, alone or in its pipelines and searches."""

    library: ClassVar[str] = "sklearn"
    flavor: ClassVar[Flavor | None] = Flavor("sklearn", "mlflow.sklearn", "sk_model", _logged_options)
    works_in_fork: ClassVar[bool] = True

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest or a bagging ensemble, or of a class derived from one."""
        return isinstance(model, (*_FORESTS, *_BAGGING))

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of ensembles, pipelines and searches."""
        return fit_methods(*_BAGGING, *_FORESTS, GridSearchCV, RandomizedSearchCV, Pipeline)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains by warm starts or, bagging with ``oob_score``, anew at each size."""
        if isinstance(estimator, _FORESTS):
            _check_bootstrap(estimator)
            return _continued
        # scikit-learn refuses warm starts of bagging with oob_score.
        return _retrained_bagging if estimator.oob_score else _continued_bagging

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes a tree, or an estimator with trees, unsafe to predict with; None if sound."""
        return find_damage(held)


def _check_bootstrap(forest: Any) -> None:
    if not forest.bootstrap:
        raise BagError(
            f"This {type(forest).__name__} has bootstrap=False: every tree would be trained on every row, so there "
            "would be no out-of-bag rows to estimate the size from. Set bootstrap=True."
        )


def _continued(forest: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return a forest trained by warm starts, with the same trees, to the bit, as in one training."""
    return _warm_started(forest, rows, first, next_size, lambda: None)


def _continued_bagging(bagging: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return a bagging ensemble trained by warm starts, with the seeds of all members."""
    seeds: list[Any] = []

    def keep_seeds() -> None:
        # A warm start keeps the seeds of its own members only; the bags of the others could not be drawn again.
        seeds.append(bagging._seeds)
        bagging._seeds = np.concatenate(seeds)

    return _warm_started(bagging, rows, first, next_size, keep_seeds)


def _warm_started(
    ensemble: Any, rows: TrainingRows, first: int, next_size: NextSize, after_fit: Callable[[], None]
) -> Any:
    fix_seed(ensemble)
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
    """Yield increasing sizes above `size` up to `wanted`, at most `batch` members apart."""
    if batch is not None:
        yield from range(size + batch, wanted, batch)
    yield wanted


def _retrained_bagging(bagging: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    fix_seed(bagging)
    return retrain("n_estimators", bagging, rows, first, next_size)
