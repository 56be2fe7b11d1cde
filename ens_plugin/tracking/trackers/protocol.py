"""The protocol of a tracker: the four methods by which a report is logged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["METHODS", "OpenTracker", "Tracker"]

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
