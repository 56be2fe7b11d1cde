"""The error by ensemble size as a display of scikit-learn's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ens_plugin.analysis.analyze import analyze
from ens_plugin.errors import InputError, ends_at_caller
from ens_plugin.report.ensemble_report import EnsembleReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class ErrorCurveDisplay:
    """Chart of the error, or a metric, by ensemble size, made as the displays of scikit-learn are.

    Make one by :meth:`from_estimator` or :meth:`from_report`.

    Parameters
    ----------
    report : EnsembleReport
    name : str, optional
        Of the curve in a legend; the model's name if None.

    Attributes
    ----------
    report : EnsembleReport
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The error at each size.

    Examples
    --------
    >>> import ens_plugin
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> extra = ExtraTreesClassifier(50, bootstrap=True, random_state=0).fit(X, y)
    >>> shown = ens_plugin.ErrorCurveDisplay.from_estimator(forest, X, y, ax=Figure().subplots())
    >>> both = ens_plugin.ErrorCurveDisplay.from_estimator(extra, X, y, ax=shown.ax_)
    >>> [line.get_label() for line in (shown.line_, both.line_)]
    ['RandomForestClassifier', 'ExtraTreesClassifier']
    """

    ax_: Axes
    figure_: Figure
    line_: Line2D

    def __init__(self, report: EnsembleReport, *, name: str | None = None) -> None:
        self.report, self.name = report, name

    @classmethod
    @ends_at_caller
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, ax: Axes | None = None, **analysis: Any
    ) -> ErrorCurveDisplay:
        """Analyse a fitted ensemble by its training rows, or by held-out rows, and draw its curve.

        Parameters
        ----------
        estimator, X, y
            As for :func:`ens_plugin.analyze`: exactly the training rows, in their order, or with ``data="holdout"``
            rows that were not used for training.
        name : str, optional
            Of the curve in a legend; the model's name if None.
        ax : matplotlib Axes, optional
            Axes to draw on, which may show other curves of the same metric; those of a new figure if None.
        **analysis
            Further arguments of :func:`ens_plugin.analyze`, such as ``metric="roc_auc"``.

        Returns
        -------
        ErrorCurveDisplay
        """
        return cls(analyze(estimator, X, y, **analysis), name=name).plot(ax)

    @classmethod
    @ends_at_caller
    def from_report(
        cls, report: EnsembleReport, *, name: str | None = None, ax: Axes | None = None
    ) -> ErrorCurveDisplay:
        """Draw the curve of a report.

        Parameters
        ----------
        report : EnsembleReport
        name, ax
            As for :meth:`from_estimator`.

        Returns
        -------
        ErrorCurveDisplay

        Raises
        ------
        InputError
            If `report` is not a report.
        """
        if not isinstance(report, EnsembleReport):
            raise InputError(
                f"report is of type {type(report).__name__}; pass what ens_plugin.analyze returns, or a fitted "
                "ensemble with its rows to from_estimator."
            )
        return cls(report, name=name).plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> ErrorCurveDisplay:
        """Draw the curve, with the current and the recommended size, and return this display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; those of a new figure if None.
        name : str, optional
            In place of the display's own name.
        """
        from ens_plugin.report.plots import plot_reports, size_lines

        self.ax_ = plot_reports({name or self.name or self.report.model: self.report}, ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]  # of axes in a subfigure, that subfigure
        self.line_ = size_lines(self.ax_)[-1]
        return self
