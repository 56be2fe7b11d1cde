"""Trackers beside MLflow: which one is meant, and what each is given."""

from __future__ import annotations

import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

import numpy as np

from ens_plugin.errors import EnsPluginError, EnsPluginWarning, InputError, TrackingError, warn_user
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import PROBE_TIMEOUT_S, first_line, is_installed, without_credentials

MLFLOW = "mlflow"
_DESCRIBED = "which help(ens_plugin.tracking.Tracker) describes"
# Of each writer of TensorBoard, which keeps none itself.
_used_prefixes: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
METHODS = ("log_figure", "log_file", "log_curve", "log_scalars")


class Tracker(Protocol):
    """The methods that :func:`ens_plugin.log_report` calls on a tracker; any object that has them is one.

    Nothing has to be inherited.  The methods are called once for each figure, once for each file, then once for the
    curve and once for the scalars.  Names start with the prefix of the report, ``"ens"`` by default.

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


class ReportParts(NamedTuple):
    """The parts of a report, complete before the first call to a tracker; all their names start with `prefix`."""

    prefix: str
    scalars: Mapping[str, float]
    curve: Mapping[str, Mapping[int, float]]
    directory: Path | None
    figures: Path | None
    facts: Mapping[str, str | int]
    summary: str

    def named_figures(self) -> list[tuple[str, Path]]:
        """Return the names of the figures and where they are."""
        return [(f"{self.prefix}/{path.stem}", path) for path in _content(self.figures)]

    def named_files(self) -> list[tuple[str, Path]]:
        """Return the names of the files and where they are."""
        return [(f"{self.prefix}/{path.name}", path) for path in _content(self.directory)]

    def curve_rows(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield each size, in ascending order, with the values of the lines that have one there."""
        for size in sorted({size for values in self.curve.values() for size in values}):
            yield size, {name: values[size] for name, values in self.curve.items() if size in values}

    def scalars_under(self, section: str) -> dict[str, float]:
        """Return the scalars with a section and a slash in place of the prefix and the dot after it."""
        return {f"{section}/{name.removeprefix(f'{self.prefix}.')}": value for name, value in self.scalars.items()}


def _content(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(folder.iterdir())


def log_parts(tracker: Tracker, parts: ReportParts) -> None:
    """Log the figures, files, curve and scalars of a report, in this order."""
    for name, path in parts.named_figures():
        tracker.log_figure(name, path)
    for name, path in parts.named_files():
        tracker.log_file(name, path)
    tracker.log_curve(parts.curve)
    tracker.log_scalars(parts.scalars)


def active_wandb_run() -> Any:
    """Return the run that ``wandb.init`` opened in this process; None where none is open. Imports nothing."""
    return getattr(sys.modules.get("wandb"), "run", None)


def _log_to_wandb(run: Any, parts: ReportParts) -> str:
    """Log to `run`, else to the active run, else to a new run, which is finished afterwards; return the run's id."""
    wandb, prefix = _imported("wandb", "wandb"), parts.prefix
    run = active_wandb_run() if run is None else run
    if run is None:
        _check_wandb_server(wandb)
        own = wandb.init()
        try:
            place = _log_to_wandb(own, parts)
        except BaseException:
            own.finish(exit_code=1)
            raise
        own.finish()
        return place
    if prefix in run.config.keys():  # noqa: SIM118 - a configuration of W&B is no mapping
        raise InputError(
            f"The run {run.id} of Weights & Biases has {prefix!r} in its configuration already, as after a "
            "report under this prefix, and two reports would be drawn as one curve. Pass another one, such as "
            f"prefix='{prefix}_2'."
        )
    run.define_metric(f"{prefix}/size", hidden=True, summary="none")
    for name in parts.curve:
        run.define_metric(name, step_metric=f"{prefix}/size")
    run.config.update({prefix: dict(parts.facts)})
    for name, path in parts.named_figures():
        run.log({name: wandb.Image(str(path))})
    # Saved from its own folder, wandb would keep a link to a file that is removed after this call.
    for copy in _copy_files(parts, run.dir):
        run.save(str(copy), base_path=run.dir, policy="now")
        if copy.suffix == ".html":
            page = wandb.Html(copy.read_text(encoding="utf-8"), inject=False)
            run.log({f"{prefix}/{copy.stem}": page})
    for size, row in parts.curve_rows():
        run.log({f"{prefix}/size": size, **row})
    scalars = parts.scalars_under(prefix)
    run.summary.update(scalars)
    for name in set(parts.curve) - set(scalars):
        # It would be the value at the largest size, under the name of that at the current one.
        del run.summary[name]
    return str(run.id)


def _check_wandb_server(wandb: Any) -> None:
    """Raise ConnectionError if no server responds, within seconds; wandb itself would try for a minute and a half."""
    import requests

    settings = wandb.setup().settings
    if settings.mode != "online" or any(getattr(settings, name, None) for name in ("http_proxy", "https_proxy")):
        return
    try:
        requests.get(settings.base_url, timeout=PROBE_TIMEOUT_S)
    except requests.exceptions.SSLError:
        # The server is up; whether its certificate is accepted is for wandb's own settings.
        return
    except requests.exceptions.RequestException as error:
        where = without_credentials(str(settings.base_url))
        raise ConnectionError(f"its server at {where} cannot be reached ({type(error).__name__})") from error


def _log_to_tensorboard(writer: Any, parts: ReportParts) -> str:
    """Log to `writer`, else to a new writer in ``runs/``, which is closed afterwards; return its directory."""
    prefix = parts.prefix
    if writer is None:
        library = "tensorboardX" if is_installed("tensorboardX") else "torch.utils.tensorboard"
        # Two directories of the same second would otherwise be one.
        model = re.sub(r"[^\w.-]", "_", str(parts.facts["model"]))
        with _imported(library, "tensorboard").SummaryWriter(comment=f"_{model}-{secrets.token_hex(3)}") as own:
            if len(parts.curve) == 3:
                # Only here: a writer has one layout, and that of a given writer is its owner's.
                key = next(iter(parts.curve)).removeprefix(f"{prefix}/")
                own.add_custom_scalars({prefix: {key: ["Margin", list(parts.curve)]}})
            return _log_to_tensorboard(own, parts)
    used = _used_prefixes.setdefault(writer, set())
    if prefix in used:
        raise InputError(
            f"This writer of TensorBoard has a report under prefix={prefix!r} already, and values of both would "
            f"be drawn as one curve. Pass another one, such as prefix='{prefix}_2', or a writer of another "
            "directory."
        )
    used.add(prefix)
    writer.add_text(f"{prefix}/summary", parts.summary, 0)
    for name, path in parts.named_figures():
        from PIL import Image

        with Image.open(path) as image:
            writer.add_image(name, np.asarray(image.convert("RGB")), 0, dataformats="HWC")
    folder = str(getattr(writer, "logdir", None) or writer.get_logdir())
    if "://" not in folder:
        _copy_files(parts, folder)
    elif parts.directory is not None:
        warn_user(
            "The files of the report are not copied to TensorBoard's log directory, because that is no local folder. "
            "Write them with report.to_html(path) or report.to_json().",
            EnsPluginWarning,
        )
    for name, values in parts.curve.items():
        for size, value in values.items():
            writer.add_scalar(name, value, size)
    for name, value in parts.scalars_under(f"{prefix}.scalars").items():
        writer.add_scalar(name, value, 0)
    writer.flush()
    return folder


def _log_to_dvclive(live: Any, parts: ReportParts) -> str:
    """Log to `live`, else to a new Live, which is ended afterwards; return its directory."""
    prefix, facts = parts.prefix, parts.facts
    if live is None:
        # In a directory of the report's own, because a Live empties the directory that it is made for.
        own = _imported("dvclive", "dvclive").Live(f"dvclive-{prefix}")
        try:
            return _log_to_dvclive(own, parts)
        finally:
            own.end()
    live.log_params({prefix: dict(facts)})
    for name, path in parts.named_figures():
        live.log_image(f"{name}{path.suffix}", path)
    _copy_files(parts, live.dir)
    lines = {name: name.removeprefix(f"{prefix}/") for name in parts.curve}
    live.log_plot(
        f"{prefix}/{next(iter(lines.values()), 'error')}",
        [{"size": size, **{lines[name]: row.get(name) for name in lines}} for size, row in parts.curve_rows()],
        x="size",
        y=list(lines.values()),
        template="linear",
        title=f"{facts['model']}: {facts['metric']} by ensemble size",
        x_label="Ensemble size (members)",
        y_label=str(facts["metric"]),
    )
    for name, value in parts.scalars_under(prefix).items():
        live.log_metric(name, value, plot=False)
    # Without a further step, which is the owner's to take.
    live.sync()
    return str(live.dir)


def _copy_files(parts: ReportParts, folder: str) -> list[Path]:
    """Copy the files of a report into a folder, below its prefix, and return the copies."""
    copies = []
    for name, path in parts.named_files():
        copy = Path(folder) / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copies.append(Path(shutil.copyfile(path, copy)))
    return copies


class _Library(NamedTuple):
    """A tracking library: how to log to it, the packages that have it, its class of runs, and what helps it."""

    title: str
    log: Callable[[Any, ReportParts], str]  # to a run or writer, or to a new one for None
    packages: tuple[tuple[str, ...], ...]  # one of these groups has to be installed
    run_class: str
    advice: str

    def defines(self, kind: type, name: str | None = None) -> bool:
        """Return whether a class, or one that it inherits from, is of this library and has a name."""
        packages = {package for group in self.packages for package in group}
        return any(
            base.__module__.partition(".")[0] in packages and name in (None, base.__name__) for base in kind.__mro__
        )


_LIBRARIES = {
    "wandb": _Library(
        "Weights & Biases",
        _log_to_wandb,
        (("wandb",),),
        "Run",
        "Log in with `wandb login`, check the connection, or set WANDB_MODE=offline and run `wandb sync` later.",
    ),
    "tensorboard": _Library(
        "TensorBoard",
        _log_to_tensorboard,
        (("tensorboardX",), ("torch", "tensorboard")),
        "SummaryWriter",
        "Check that the log directory can be written, or pass a SummaryWriter of another directory.",
    ),
    "dvclive": _Library(
        "DVCLive",
        _log_to_dvclive,
        (("dvclive", "dvc"),),
        "Live",
        "Check that its directory can be written, or pass a Live of another directory.",
    ),
}
NAMES = (MLFLOW, *_LIBRARIES)


def kind_of(tracker: object) -> str | None:
    """Return the name of the built-in tracker that an object is a run or a writer of; None for other objects."""
    if isinstance(tracker, str):
        return tracker
    found = (name for name, library in _LIBRARIES.items() if library.defines(type(tracker), library.run_class))
    return next(found, None)


def log_to(tracker: object, parts: ReportParts) -> str:
    """Log the parts of a report to a tracker other than MLflow, and return the place of the report."""
    kind = kind_of(tracker)
    if kind is None:
        log_parts(cast("Tracker", tracker), parts)
        return type(tracker).__name__
    library = _LIBRARIES[kind]
    with _library_errors(library):
        return library.log(None if isinstance(tracker, str) else tracker, parts)


@contextmanager
def _library_errors(library: _Library) -> Iterator[None]:
    """Raise TrackingError in place of a library's errors, and of the operating system's, inside the block."""
    try:
        yield
    except EnsPluginError:
        raise
    except Exception as error:  # a tracker's own errors are told by their class, without importing it
        if not (isinstance(error, OSError) or library.defines(type(error))):
            raise
        problem = first_line(error)
        raise TrackingError(f"{library.title} did not take the report: {problem}. {library.advice}") from error


def _imported(module: str, extra: str) -> Any:
    """Import and return a module of a tracking library, or raise TrackingError naming the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise TrackingError(
            f"{module} cannot be imported: {first_line(error)}. Install it, or install it again, with: "
            f"pip install 'ens-plugin[{extra}]'."
        ) from error


def check_tracker(tracker: object) -> None:
    """Raise InputError unless reports can be logged to `tracker`; nothing is opened and no library is imported."""
    if isinstance(tracker, str):
        _check_name(tracker)
    elif kind_of(tracker) is None:
        _check_methods(tracker)


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
    if isinstance(tracker, type):
        what, problem = f"the class {printable(tracker.__name__, 60)}", "and an instance of it is needed"
    elif lacking:
        what = f"an object of the type {printable(type(tracker).__name__, 60)}"
        problem = f"and it lacks the {'method' if len(lacking) == 1 else 'methods'} {_listed(lacking)}"
    else:
        return
    raise InputError(
        f"tracker= is {what}, {problem}. Pass one of the names {', '.join(map(repr, NAMES))}, a run or writer of their "
        f"libraries, or an object with the methods {_listed(METHODS)}, {_DESCRIBED}."
    )


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
