"""MLflow's state of the calling thread, read without a request to a server."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MlflowState", "autologging_is_suspended", "state_of_thread"]


class MlflowState(NamedTuple):
    """The open run of a thread, and its last run and model.

    Attributes
    ----------
    active_run : str or None
        The open run.
    is_users : bool
        Whether somebody other than autologging opened it.
    last_run : str or None
        Run that was closed last.
    last_model : str or None
        LoggedModel that was logged last.
    """

    active_run: str | None
    is_users: bool
    last_run: str | None
    last_model: str | None


def state_of_thread() -> MlflowState:
    """Return MLflow's state of the calling thread."""
    import mlflow
    from mlflow.utils.mlflow_tags import MLFLOW_AUTOLOGGING

    run = mlflow.active_run()
    return MlflowState(
        active_run=None if run is None else str(run.info.run_id),
        is_users=run is not None and MLFLOW_AUTOLOGGING not in run.data.tags,
        # The public last_active_run() and last_logged_model() send requests to the server.
        last_run=_kept("_last_active_run_id"),
        last_model=_kept("_last_logged_model_id"),
    )


def _kept(name: str) -> str | None:
    from mlflow.tracking import fluent

    variable = getattr(fluent, name, None)
    return None if variable is None else variable.get()


def autologging_is_suspended() -> bool:
    """Return whether MLflow's ``disable_autologging()`` is in force, as around its cross-validation."""
    from mlflow.utils import autologging_utils

    return bool(getattr(autologging_utils, "_AUTOLOGGING_GLOBALLY_DISABLED", False))
