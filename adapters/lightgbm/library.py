"""LightGBM as a library: training, files and predictions; does not import LightGBM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.library import (
    FitSite,
    Flavor,
    Library,
    NextSize,
    TrainedModel,
    Trainer,
    TrainingData,
    TrainingRows,
    fit_methods,
    fix_seed,
)
from ens_plugin.adapters.lightgbm.document import MODEL_START, SIZE_ALIASES, find_damage
from ens_plugin.adapters.lightgbm.rows import with_categories
from ens_plugin.adapters.members import GROWABLE, as_pandas, label_positions
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.errors import BagError, UnsupportedModelError

# The names of a parameter, LightGBM's own first, which it prefers to the others.
FRACTION = ("bagging_fraction", "bagging", "sub_row", "subsample")
FREQUENCY = ("bagging_freq", "subsample_freq")
FRACTIONS_BY_LABEL = tuple(
    (f"{sign}_bagging_fraction", f"{sign}_sub_row", f"{sign}_subsample", f"{sign}_bagging") for sign in ("pos", "neg")
)


class LightGBM(Library):
    """The library LightGBM: its ``train``, scikit-learn interface and model files."""

    library: ClassVar[str] = "lightgbm"
    title: ClassVar[str] = "LightGBM"
    flavor: ClassVar[Flavor | None] = Flavor("lightgbm", "mlflow.lightgbm", "lgb_model")
    requirement: ClassVar[str] = "ens-plugin[lightgbm]"
    suffixes: ClassVar[tuple[str, ...]] = (".lgb",)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``lightgbm.train`` and the ``fit`` methods of the scikit-learn interface."""
        import lightgbm

        return [
            FitSite(lightgbm, "train", train_arguments),
            *fit_methods(lightgbm.LGBMClassifier, lightgbm.LGBMRegressor),
        ]

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains an estimator in ``rf`` mode in a single fit."""
        from lightgbm import LGBMClassifier, LGBMRegressor

        if not isinstance(estimator, (LGBMClassifier, LGBMRegressor)):
            raise UnsupportedModelError(
                f"A {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: pass an unfitted "
                f"LGBMClassifier or LGBMRegressor with boosting_type='rf'. {GROWABLE}."
            )
        cls.refuse_boosting(estimator)
        _refuse_no_bags(estimator)
        return _in_one_fit

    @classmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file with this start is the text of a LightGBM model."""
        return start.startswith(MODEL_START)

    @classmethod
    def read(cls, content: bytes) -> Any:
        """Return the Booster that is read from the text of a model."""
        import lightgbm

        return lightgbm.Booster(model_str=content.decode())

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes a Booster unsafe to predict with, or None."""
        is_booster = type(held).__name__ == "Booster" and cls.accepts(held)
        return find_damage(held.model_to_string(num_iteration=-1)) if is_booster else None

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError unless an unfitted estimator's parameters request ``rf`` mode."""
        from lightgbm import LGBMModel

        if not isinstance(estimator, LGBMModel):
            return
        parameters = estimator.get_params()
        kind = next((parameters[name] for name in ("boosting", "boost") if name in parameters), estimator.boosting_type)
        if kind not in ("rf", "random_forest"):
            raise UnsupportedModelError(
                f"This {type(estimator).__name__} has boosting_type={kind!r}: its trees correct one another, so they "
                "are not members drawn alike. Set boosting_type='rf', subsample=0.632 and subsample_freq=1."
            )

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return the predictions of a model for rows, without categories of Arrow, which end LightGBM's process."""
        return model.predict(as_pandas(rows))

    @classmethod
    def predict_proba(cls, model: Any, rows: Any) -> Any:
        """Return the probabilities that a classifier predicts for rows, without categories of Arrow."""
        return model.predict_proba(as_pandas(rows))

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the predicted labels; of a Booster, the position of the highest raw score of each row."""
        if not _is_booster(model):
            return super().labels(model, rows)
        return label_positions(model.predict(as_pandas(rows), raw_score=True))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features; None where LightGBM generated them for features without names."""
        booster = model if _is_booster(model) else getattr(model, "booster_", None)
        names = [] if booster is None else booster.feature_name()
        return None if names == [f"Column_{index}" for index in range(len(names))] else names

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features that the model was trained on; None where it is not stored."""
        return int(model.num_feature()) if _is_booster(model) else super().n_features(model)

    @classmethod
    def with_categories(cls, model: Any, table: Any) -> Any:
        """Return a table whose columns of categories are those that the booster was trained on."""
        booster = model if _is_booster(model) else getattr(model, "booster_", None)
        return table if booster is None else with_categories(booster, table)


def train_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``lightgbm.train``, which frees the rows later."""
    dataset = arguments["train_set"]
    return TrainingData(dataset.data if hasattr(dataset.data, "shape") else None, dataset.label, dataset.weight)


def _refuse_no_bags(estimator: Any) -> None:
    """Raise BagError if an unfitted estimator's parameters let every tree be trained on every row."""
    parameters = estimator.get_params()
    fraction, frequency, *by_label = (
        next((parameters[name] for name in names if name in parameters), None)
        for names in (FRACTION, FREQUENCY, *FRACTIONS_BY_LABEL)
    )
    is_drawn = any(drawn is not None and drawn < 1 for drawn in (fraction, *by_label))
    if not (is_drawn and frequency and frequency > 0):
        raise BagError(
            f"With subsample={fraction} and subsample_freq={frequency}, every tree of this {type(estimator).__name__} "
            "would be trained on every row, so no row would be out of bag. Set subsample=0.632 and subsample_freq=1."
        )


def _is_booster(model: object) -> bool:
    from lightgbm import Booster

    return isinstance(model, Booster)


def _in_one_fit(model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return a forest trained in a single fit, ended by a callback, because LightGBM cannot continue a forest."""
    from lightgbm import Booster, LGBMClassifier
    from lightgbm.callback import EarlyStopException

    if model.random_state is not None:
        fix_seed(model)
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
    return find_adapter(model).truncated(wanted)
