"""MLflow's autologging events: before it begins with a fit, and when it is done, its model logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FitEvents"]

FITS = ("fit", "fit_transform", "fit_predict", "train")


class FitEvents:
    """Calls back around each fit that MLflow's autologging takes part in.

    Takes the place of MLflow's event logger and passes all events on to the one that was there.

    Parameters
    ----------
    before, after : callable
        Called without arguments, in the thread of the fit; must not raise.  `after` is not called
        for a fit that raises.
    failed : callable
        Called instead.
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None], failed: Callable[[], None]) -> None:
        from mlflow.utils.autologging_utils.events import AutologgingEventLogger

        slot: Any = AutologgingEventLogger  # typed by nobody
        self._slot = slot
        self._before, self._after, self._failed = before, after, failed
        self._chained = self._slot.get_logger()
        # Without a logger of somebody's own, MLflow makes a new one at each request.
        self._had_default = self._chained is not self._slot.get_logger()
        self._slot.set_logger(self)

    def come(self) -> bool:
        """Tell whether events come here first; another logger may have been set since."""
        return self._slot.get_logger() is self

    def stop(self) -> None:
        """Put back the logger that was there before, unless another one has been set since."""
        if self.come():
            self._slot.set_logger(None if self._had_default else self._chained)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chained, name)

    def log_patch_function_start(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """MLflow begins: it has neither a run nor a model yet."""
        if function_name in FITS:
            self._before()
        self._chained.log_patch_function_start(session, patch_obj, function_name, *call)

    def log_patch_function_success(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """MLflow is done with a call."""
        try:
            self._chained.log_patch_function_success(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_patch_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """MLflow failed around a call that went well."""
        try:
            self._chained.log_patch_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._after()

    def log_original_function_error(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
        """The fit itself raised."""
        try:
            self._chained.log_original_function_error(session, patch_obj, function_name, *call)
        finally:
            if function_name in FITS:
                self._failed()
