"""Every exception and warning that a user of ens_plugin can meet.

All exceptions derive from :class:`EnsPluginError`; each also derives from the built-in type
that scikit-learn users would expect to catch (``ValueError``, ``TypeError``, ...).  A message
says what was found, why it is not enough and what to do.
"""

from __future__ import annotations

__all__ = [
    "BagError",
    "ClusterError",
    "DataMismatchError",
    "EnsPluginError",
    "EnsPluginWarning",
    "GateError",
    "InputError",
    "ModelLoadError",
    "NotConvergedWarning",
    "NotFittedError",
    "TooFewMembersError",
    "TrackingError",
    "UnsupportedModelError",
    "WeakEstimateWarning",
]


class EnsPluginError(Exception):
    """Base class of every exception raised on purpose by ens_plugin."""


class InputError(EnsPluginError, ValueError):
    """An argument has a wrong shape, range or content; the message names the argument."""


class DataMismatchError(InputError):
    """The rows or columns given are not the ones the model was trained on."""


class UnsupportedModelError(EnsPluginError, TypeError):
    """No adapter knows this kind of model, or the model has a form no estimator covers."""


class NotFittedError(EnsPluginError, ValueError):
    """The model has not been fitted yet."""


class BagError(EnsPluginError, ValueError):
    """Which rows each member saw is not known and cannot be proved (no bootstrap, for example)."""


class TooFewMembersError(EnsPluginError, ValueError):
    """There are too few members, or too few out-of-bag members per row, to say anything."""


class ModelLoadError(EnsPluginError, OSError):
    """A model file or URI could not be read as a model."""


class TrackingError(EnsPluginError, ConnectionError):
    """The MLflow tracking server could not be reached or refused the call."""


class ClusterError(EnsPluginError, RuntimeError):
    """A Spark job could not be started or failed for a reason that lies neither in the model nor in the rows."""


class GateError(EnsPluginError, LookupError):
    """A gate could not tell whether a model version meets its policy: evidence is missing or contradicts itself."""


class EnsPluginWarning(UserWarning):
    """Base class of every warning issued by ens_plugin."""


class WeakEstimateWarning(EnsPluginWarning):
    """An estimate exists but rests on few rows or few members."""


class NotConvergedWarning(EnsPluginWarning):
    """An ensemble was left smaller than its estimate asks for, or at a size that no estimate stands behind."""
