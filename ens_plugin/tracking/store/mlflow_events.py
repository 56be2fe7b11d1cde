"""Callbacks at MLflow's autologging events: before it starts with a fit, and after it has logged the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FitEvents"]

FITS = ("fit", "fit_transform", "fit_predict", "train")


class FitEvents:
    """Event logger that calls back around each fit that MLflow's autologging handles.

    Takes the place of MLflow's event logger and passes all events on to the one that was there.

    Parameters
    ----------
    before, after : callable
        Called without arguments, in the thread of the fit; must not raise.  `after` is not called
        for a fit that raises.
    failed : callable
        Called in place of `after` for a fit that raises.
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None], failed: Callable[[], None]) -> None:
        from mlflow.utils.autologging_utils.events import AutologgingEventLogger

        slot: Any = AutologgingEventLogger  # typed by nobody
        self._slot = slot
        self._before, self._after, self._failed = before, after, failed
        self._chained = self._slot.get_logger()
        # MLflow makes a new default logger at each request; only one that was set stays the same.
        self._had_default = self._chained is not self._slot.get_logger()
        self._slot.set_logger(self)

    def is_current(self) -> bool:
        """Return whether this is still MLflow's event logger; another one may have been set since."""
        return self._slot.get_logger() is self

    def stop(self) -> None:
        """Restore the previous logger, unless another one has been set since."""
        if self.is_current():
            self._slot.set_logger(None if self._had_default else self._chained)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chained, name)

    def log_patch_function_start(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `before`: MLflow starts, with neither a run nor a model yet."""
        if function_name in FITS:
            self._before()
        self._chained.log_patch_function_start(session, patch_obj, function_name, *call)

    def log_patch_function_success(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `after`: MLflow has finished with a call."""
        try:
            self._chained.log_patch_function_success(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_patch_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `after`: MLflow failed around a call that itself succeeded."""
        try:
            self._chained.log_patch_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_original_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `failed`: the fit itself raised."""
        try:
            self._chained.log_original_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._failed()
