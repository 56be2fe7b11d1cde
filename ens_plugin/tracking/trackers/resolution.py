"""The tracker that a name or an object stands for, and the refusal of what is none."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple, cast

from ens_plugin.errors import InputError
from ens_plugin.report.text import printable
from ens_plugin.tracking.trackers.parts import ReportParts, log_parts
from ens_plugin.tracking.trackers.protocol import METHODS, Tracker

__all__ = ["MLFLOW", "NAMES", "check_tracker", "check_trackers", "kind_of", "log_to"]

MLFLOW = "mlflow"
_DESCRIBED = "which help(ens_plugin.tracking.Tracker) describes"


class _Library(NamedTuple):
    """A tracking library: its module of this package, the packages that have it, and its class of runs."""

    module: str
    packages: tuple[tuple[str, ...], ...]  # one of these groups has to be installed
    run_class: str
    example: str


_LIBRARIES = {
    "wandb": _Library("wandb_run", (("wandb",),), "Run", "wandb.run"),
    "tensorboard": _Library(
        "tensorboard_writer", (("tensorboardX",), ("torch", "tensorboard")), "SummaryWriter", "SummaryWriter('runs/a')"
    ),
    "dvclive": _Library("dvclive_live", (("dvclive",),), "Live", "Live()"),
}
NAMES = (MLFLOW, *_LIBRARIES)


def check_tracker(tracker: object) -> None:
    """Raise InputError unless reports can be logged to `tracker`; nothing is opened and no library is imported.

    Parameters
    ----------
    tracker : object
        The name of a built-in tracker, a run of its library, or an object with the methods of
        :class:`~ens_plugin.tracking.Tracker`.

    Raises
    ------
    InputError
        If no tracker has this name, its library is not installed, or the object lacks a method.

    Examples
    --------
    >>> check_tracker("mlflow")
    >>> check_tracker("tensorbord")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: tracker='tensorbord' is no name of a tracker; near is 'tensorboard'. The names are ...
    """
    if isinstance(tracker, str):
        _check_name(tracker)
    elif kind_of(tracker) is None:
        _check_methods(tracker)


def check_trackers(trackers: object) -> tuple[object, ...]:
    """Return a list of trackers as a tuple; raise InputError unless each of them is one, and none is there twice.

    Parameters
    ----------
    trackers : sequence
        Of what :func:`check_tracker` accepts.
    """
    if isinstance(trackers, (str, bytes)) or not isinstance(trackers, Sequence):
        shown = printable(repr(trackers), 80)
        raise InputError(f"trackers={shown} is no list. Pass a list of names or objects: trackers=['mlflow', 'wandb'].")
    if not trackers:
        raise InputError(
            "trackers=[] names no tracker, so reports would be made for nothing. Name one, such as "
            "trackers=['mlflow'], or pass disable=True."
        )
    for position, tracker in enumerate(trackers):
        check_tracker(tracker)
        if _identity(tracker) in map(_identity, trackers[:position]):
            raise InputError(
                f"trackers={printable(repr(trackers), 120)} has a tracker twice, which would get each report twice. "
                "Leave one out."
            )
    return tuple(trackers)


def kind_of(tracker: object) -> str | None:
    """Return the name of the built-in tracker that an object is a run or a writer of; None for other objects.

    Examples
    --------
    >>> kind_of("wandb"), kind_of(3)
    ('wandb', None)
    """
    if isinstance(tracker, str):
        return tracker
    for base in type(tracker).__mro__:
        package = base.__module__.partition(".")[0]
        for name, library in _LIBRARIES.items():
            if base.__name__ == library.run_class and any(package == group[0] for group in library.packages):
                return name
    return None


def log_to(tracker: object, parts: ReportParts) -> str:
    """Log the parts of a report to a tracker other than MLflow; a run that this opens is closed.

    Parameters
    ----------
    tracker : object
        As for :func:`check_tracker`, but not ``"mlflow"``.
    parts : ReportParts

    Returns
    -------
    str
        The place of the report: a run's id, a directory, or the name of the tracker's class.

    Raises
    ------
    InputError
        If the run has a report of this prefix already, and its library would draw both as one curve.
    TrackingError
        If the library fails.  The exceptions of a tracker of the user's own are raised as they are.
    """
    kind = kind_of(tracker)
    if kind is None:
        log_parts(cast("Tracker", tracker), parts)
        return type(tracker).__name__
    module = import_module(f"ens_plugin.tracking.trackers.{_LIBRARIES[kind].module}")
    with module.opened(None if isinstance(tracker, str) else tracker, parts) as (target, place):
        log_parts(target, parts)
    return str(place)


def _check_name(name: str) -> None:
    if name not in NAMES:
        near = get_close_matches(name[:80].lower(), NAMES, n=2, cutoff=0.5)
        hint = f"; near is {' or '.join(map(repr, near))}" if near else ""
        raise InputError(
            f"tracker={printable(repr(name), 80)} is no name of a tracker{hint}. The names are "
            f"{', '.join(map(repr, NAMES))}; any other tracker is an object with the methods {_listed(METHODS)}, "
            f"{_DESCRIBED}."
        )
    library = _LIBRARIES.get(name)
    if library is not None and not any(all(map(_is_installed, group)) for group in library.packages):
        needed = " or ".join(" with ".join(group) for group in library.packages)
        raise InputError(
            f"tracker={name!r} needs {needed}, which is not installed. Install it with: "
            f"pip install 'ens-plugin[{name}]'."
        )


def _check_methods(tracker: object) -> None:
    lacking = [name for name in METHODS if not callable(getattr(tracker, name, None))]
    if not lacking and not isinstance(tracker, type):
        return
    what = f"an object of the type {printable(type(tracker).__name__, 60)}"
    if isinstance(tracker, type):
        what, problem = f"the class {printable(tracker.__name__, 60)}", "and an instance of it is needed"
    else:
        problem = f"and it lacks the {'method' if len(lacking) == 1 else 'methods'} {_listed(lacking)}"
    if isinstance(tracker, ModuleType):
        what = f"the module {tracker.__name__}"
    raise InputError(
        f"tracker= is {what}, {problem}. Pass {_advice(tracker)}an object with the methods {_listed(METHODS)}, "
        f"{_DESCRIBED}."
    )


def _advice(tracker: object) -> str:
    package = getattr(tracker, "__name__", "").partition(".")[0] if isinstance(tracker, ModuleType) else ""
    for name, library in _LIBRARIES.items():
        if any(package == group[0] for group in library.packages):
            return f"its name, {name!r}, a run of it, such as {library.example}, or "
    names = "the name 'mlflow'" if package == MLFLOW else f"one of the names {', '.join(map(repr, NAMES))}"
    return f"{names}, or "


def _identity(tracker: object) -> str | int:
    """Return what two trackers are compared by; a tracker may define equality as it likes, as arrays do."""
    return tracker if isinstance(tracker, str) else id(tracker)


def _is_installed(package: str) -> bool:
    found = find_spec(package)
    # A folder of that name in the working directory, as wandb makes one, is found as a package without a file.
    return found is not None and found.origin is not None


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
