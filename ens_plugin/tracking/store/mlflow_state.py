"""MLflow's state of the calling thread, read without a request to a server."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MlflowState", "autologging_is_suspended", "state_of_thread"]


class MlflowState(NamedTuple):
    """The MLflow run that is open in a thread, and the last run and model of the thread.

    Attributes
    ----------
    active_run : str or None
        The open run.
    is_users : bool
        Whether that run was opened by something other than MLflow's autologging.
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
    """Return the open run of the calling thread, and its last run and model."""
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
