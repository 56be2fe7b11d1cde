"""Reports on ensembles that grow by ``warm_start``: one after the first fit, and one when the growth is over."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.tracking.autolog.fit_report import FinishedFit, report_fit
from ens_plugin.tracking.autolog.settings import AutologOptions, attempt, inform
from ens_plugin.tracking.autolog.upload_queue import call_at_exit
from ens_plugin.tracking.store.data_digest import data_digest

__all__ = ["continues_growth", "report_grown", "report_later"]


@dataclass(frozen=True, eq=False)
class _Step:
    """The last fit of an ensemble that may grow further."""

    fit: FinishedFit
    model_id: str | None
    settings: AutologOptions


_last_steps: dict[int, _Step] = {}  # by thread


def continues_growth(model: Any) -> bool:
    """Return whether a fit of `model` would add members to those that it has.

    Parameters
    ----------
    model : object
        Model before the fit.
    """
    try:
        ensemble = inner_ensemble(model)
    except EnsPluginError:
        return False
    return bool(getattr(ensemble, "warm_start", False) and getattr(ensemble, "estimators_", None))


def report_later(fit: FinishedFit, model_id: str | None, settings: AutologOptions) -> bool:
    """Postpone the report of a fit that continues a growth until the growth is over.

    No fit is known to be the last one. The growth is taken to be over when another model is fitted in the same
    thread, when autologging is switched off or on again, and when the program ends.

    Parameters
    ----------
    fit : FinishedFit
    model_id : str or None
    settings : AutologOptions

    Returns
    -------
    bool
        False where the rows have no digest to recognise them by later; report such a fit at once.
    """
    try:
        digest = data_digest(fit.data.table(), fit.data.y)
    except InputError:
        return False
    call_at_exit(report_grown)
    _last_steps[threading.get_ident()] = _Step(replace(fit, digest=digest), model_id, settings)
    inform(settings, logging.DEBUG, f"The report of {type(fit.model).__name__} follows when it has grown.")
    return True


def report_grown(thread: int | None = None, model: Any = None) -> None:
    """Report the ensembles whose growth is over.

    Parameters
    ----------
    thread : int, optional
        Report the ensembles of this thread only; by default of all.
    model : object, optional
        The model that is fitted next; where it is the one that grew, nothing is reported.
    """
    for ident in list(_last_steps) if thread is None else [thread]:
        step = _last_steps.pop(ident, None)
        if step is not None and step.fit.model is not model and step.settings.process == os.getpid():
            _report(step)


def _report(step: _Step) -> None:
    attempt(step.settings, lambda: report_fit(step.fit, step.model_id, step.settings))
