"""Event logger of MLflow's autologging, which calls functions before a fit's run and after its model is logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FitEvents"]

FITS = ("fit", "fit_transform", "fit_predict", "train")


class FitEvents:
    """Event logger that calls functions before and after each fit that MLflow's autologging handles.

    It replaces MLflow's event logger and passes all events on to that one.

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

        slot: Any = AutologgingEventLogger  # MLflow has no types here
        self._slot = slot
        self._before, self._after, self._failed = before, after, failed
        self._chained = self._slot.get_logger()
        # MLflow makes a new default logger at each request; only one that was set stays the same.
        self._had_default = self._chained is not self._slot.get_logger()
        self._slot.set_logger(self)

    def is_current(self) -> bool:
        """Return whether MLflow still uses this event logger; another one may have been set since."""
        return self._slot.get_logger() is self

    def stop(self) -> None:
        """Restore the previous logger, unless another one has been set since."""
        if self.is_current():
            self._slot.set_logger(None if self._had_default else self._chained)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chained, name)

    def log_patch_function_start(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `before`, when MLflow has neither a run nor a model for the fit yet."""
        if function_name in FITS:
            self._before()
        self._chained.log_patch_function_start(session, patch_obj, function_name, *call)

    def log_patch_function_success(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `after`, when MLflow has logged the fit."""
        try:
            self._chained.log_patch_function_success(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_patch_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `after`, when MLflow failed to log a fit that succeeded."""
        try:
            self._chained.log_patch_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_original_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """Call `failed`, when the fit itself raised."""
        try:
            self._chained.log_original_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._failed()
