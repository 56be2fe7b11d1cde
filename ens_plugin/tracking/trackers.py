"""Trackers beside MLflow: which one is meant, and what each is given."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast

from ens_plugin.errors import EnsPluginError, InputError, TrackingError
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import is_installed, without_secrets


def imported(module: str, extra: str) -> Any:
    """Import and return a module of a tracking library, or raise TrackingError naming the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise TrackingError(
            f"{module} cannot be imported: {_first_line(error)}. Install it, or install it again, with: "
            f"pip install 'ens-plugin[{extra}]'."
        ) from error


@contextmanager
def library_errors(title: str, advice: str, *types: type[Exception]) -> Iterator[None]:
    """Raise TrackingError in place of a library's errors, and of the operating system's, inside the block."""
    caught: tuple[type[Exception], ...] = (OSError, *types)
    try:
        yield
    except EnsPluginError:
        raise
    except caught as error:
        raise TrackingError(f"{title} did not take the report: {_first_line(error)}. {advice}") from error


def _first_line(error: Exception) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return printable(without_secrets(lines[0].rstrip(".")), 300)


METHODS = ("log_figure", "log_file", "log_curve", "log_scalars")


class Tracker(Protocol):
    """The methods that :func:`ens_plugin.log_report` calls on a tracker; any object that has them is one.

    Nothing has to be inherited.  The methods are called once for each figure, where matplotlib is installed, once for
    each file, then once for the curve and once for the scalars.  Names start with the prefix of the report, ``"ens"``
    by default.

    Examples
    --------
    A tracker that prints what it receives:

    >>> class Printer:
    ...     def log_scalars(self, scalars):
    ...         print(len(scalars), "scalars, such as", min(scalars))
    ...
    ...     def log_curve(self, curve):
    ...         for name, values in curve.items():
    ...             print(name, "from", min(values), "to", max(values), "members")
    ...
    ...     def log_figure(self, name, path):
    ...         print("figure", name)
    ...
    ...     def log_file(self, name, path):
    ...         print("file", name)
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(20, random_state=0).fit(X, y), X, y)
    >>> ens_plugin.log_report(report, tracker=Printer())  # doctest: +ELLIPSIS
    figure ens/agreement
    figure ens/bias_variance
    figure ens/error_curve
    file ens/curve.csv
    ...
    """

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        """Log the scalars of a report.

        Parameters
        ----------
        scalars : mapping of str to float
            Such as ``{"ens.error": 0.021, "ens.recommended_size": 313.0}``; all values are finite.
        """

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        """Log the error curve and both ends of its interval, with the ensemble size as the axis.

        Parameters
        ----------
        curve : mapping of str to mapping of int to float
            By name of the line (``"ens/error"``, ``"ens/error_lower"``, ``"ens/error_upper"``), the value at each of
            up to 100 sizes, in ascending order; all values are finite.
        """

    def log_figure(self, name: str, path: Path) -> None:
        """Log a figure.

        Parameters
        ----------
        name : str
            Such as ``"ens/error_curve"``.
        path : Path
            A PNG file, which exists during this call only.
        """

    def log_file(self, name: str, path: Path) -> None:
        """Log a file.

        Parameters
        ----------
        name : str
            Such as ``"ens/report.html"``.
        path : Path
            The file, which exists during this call only.
        """


class OpenTracker(NamedTuple):
    """A tracker that is ready to receive a report, and what the report is then found by: a run's id, a directory."""

    tracker: Tracker
    place: str


class ReportParts(NamedTuple):
    """The parts of a report, complete before the first call to a tracker; all their names start with `prefix`."""

    prefix: str
    scalars: Mapping[str, float]
    curve: Mapping[str, Mapping[int, float]]
    directory: Path | None
    figures: Path | None
    facts: Mapping[str, str | int]
    summary: str

    @property
    def key(self) -> str:
        """The name of the curve without prefix: ``"error"``, or that of a scorer."""
        return next(iter(self.curve), f"{self.prefix}/error").removeprefix(f"{self.prefix}/")


def log_parts(tracker: Tracker, parts: ReportParts) -> None:
    """Log the figures, files, curve and scalars of a report, in this order."""
    for path in sorted(parts.figures.iterdir()) if parts.figures is not None else ():
        tracker.log_figure(f"{parts.prefix}/{path.stem}", path)
    for path in sorted(parts.directory.iterdir()) if parts.directory is not None else ():
        tracker.log_file(f"{parts.prefix}/{path.name}", path)
    tracker.log_curve(parts.curve)
    tracker.log_scalars(parts.scalars)


def with_slash(name: str, prefix: str) -> str:
    """Return the name of a scalar with a slash in place of the dot after its prefix."""
    return f"{prefix}/{name.removeprefix(f'{prefix}.')}"


_used: dict[int, set[str]] = {}  # by id of the object
_kept: list[object] = []


def used_prefixes(place: object) -> set[str]:
    """Return the set of prefixes that were logged to an object, for the caller to add to."""
    if id(place) not in _used:
        _used[id(place)] = set()
        try:
            weakref.finalize(place, _used.pop, id(place), None).atexit = False
        except TypeError:
            # Were it freed, another object could get its id.
            _kept.append(place)
    return _used[id(place)]


def free_prefix(used: Collection[str], prefix: str) -> str:
    """Return `prefix`, or else the first of ``<prefix>_2``, ``<prefix>_3`` and so on that is not used."""
    numbered, count = prefix, 1
    while numbered in used:
        count += 1
        numbered = f"{prefix}_{count}"
    return numbered


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
    """Raise InputError unless reports can be logged to `tracker`; nothing is opened and no library is imported."""
    if isinstance(tracker, str):
        _check_name(tracker)
    elif kind_of(tracker) is None:
        _check_methods(tracker)


def check_trackers(trackers: object) -> tuple[object, ...]:
    """Return a list of trackers as a tuple; raise InputError unless each of them is one, and none is there twice."""
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
    """Return the name of the built-in tracker that an object is a run or a writer of; None for other objects."""
    if isinstance(tracker, str):
        return tracker
    for base in type(tracker).__mro__:
        package = base.__module__.partition(".")[0]
        for name, library in _LIBRARIES.items():
            if base.__name__ == library.run_class and any(package == group[0] for group in library.packages):
                return name
    return None


def log_to(tracker: object, parts: ReportParts) -> str:
    """Log the parts of a report to a tracker other than MLflow, and return the place of the report."""
    kind = kind_of(tracker)
    if kind is None:
        log_parts(cast("Tracker", tracker), parts)
        return type(tracker).__name__
    module = import_module(f"ens_plugin.tracking.{_LIBRARIES[kind].module}")
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
    if library is not None and not any(all(map(is_installed, group)) for group in library.packages):
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


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
