"""The report of an analysis: one frozen, typed, serialisable object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ens_plugin.core.validation import counted, printable
from ens_plugin.errors import InputError
from ens_plugin.report.content import FEWEST_ROWS, ReportContent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["FEWEST_ROWS", "LONGEST_REPORT", "EnsembleReport"]

# In characters; a report with 100 000 sizes has 17 million.
LONGEST_REPORT = 20_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleReport(ReportContent):
    """Everything that :func:`ens_plugin.analyze` estimated about one trained ensemble.

    Attributes
    ----------
    task : {"classification", "regression"}
    model : str
        Class name of the analysed ensemble, wrappers removed.
    n_members : int
        Members in the trained ensemble: its current size.
    n_rows : int
        Rows that entered the estimates.
    rows_without_oob : int
        Rows left out because they were out of bag for too few members.
    mean_oob_members : float
        Mean number of out-of-bag members of a row (all members for held-out data).
    aggregation : {"vote", "mean_proba", "mean_score", "mean", "quantile"}
        Rule by which the model's own ``predict`` combines its members.
    bags : {"recorded", "proved", "given", "holdout"}
        Origin of the bags, the rows that each member was trained on.
    data : {"oob", "holdout"}
    error_curve : ErrorCurve
    recommendation : SizeRecommendation
    bias_variance : BiasVariance
    algorithmic_sd : float
        Standard deviation, over seeds, of the error or the metric of `error_curve` at the current size: on these rows
        if they are held out, else on infinitely many fresh rows.  NaN where it is not known: of a metric with fewer
        than 4 members, for example.
    algorithmic_sd_is_bound : bool
        True in reports of earlier versions on out-of-bag rows, where `algorithmic_sd` was an upper bound.
    warnings : tuple of str
        Limits of the estimates, each a sentence, to read before relying on the numbers.
    created : str
        UTC time of the analysis, ISO 8601.
    versions : dict of str to str
        Versions of ens_plugin and of the libraries that computed the report.
    basis : EstimateBasis
        Rows and groups that the figures are computed from, and the reasons not to rely on the figures.
    criteria : tuple of SizeRecommendation
        The size by every criterion that this model has; `recommendation` is one of them.  Empty in reports of earlier
        versions.
    label_errors : tuple of LabelErrors
        The error and the confusion matrix by label; empty for regression and in reports of earlier versions.
    outputs : dict of str to EnsembleReport
        Of a model of several outputs, the report of each, by the name of its column of y, or else by its position;
        every other attribute is then of the mean over outputs.  Empty for models of one output.
    model_id : str or None
        LoggedModel of MLflow that the report was logged for; None where it was logged for none.
    fingerprint : tuple of str
        Parts of the analysed members, in hexadecimal digits, as they are in the files of a stored model.  Empty for
        libraries whose files have no such parts, and in reports of earlier versions.

    Notes
    -----
    Serialise with :meth:`to_json`, read back with :meth:`from_json`; the round trip is exact.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> report.n_members, report.n_rows, report.aggregation
    (50, 150, 'mean_proba')
    >>> ens_plugin.EnsembleReport.from_json(report.to_json()).to_json() == report.to_json()
    True
    """

    outputs: Mapping[str, EnsembleReport] = field(default_factory=dict)

    def __repr__(self) -> str:
        found, key = self.metrics(), self.error_curve.key
        shown = [f"{name}={found[name]:.4g}" for name in (key, f"asymptotic_{key}") if name in found]
        return (
            f"EnsembleReport({printable(self.model, 60)}, {', '.join([f'n_members={self.n_members}', *shown])}, "
            f"recommended_size={self.recommended_size})"
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from ens_plugin.report.html.cards import report_card

        return report_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain Python objects that ``json`` can write (NaN as None)."""
        from ens_plugin.report.serialization import report_to_dict

        return report_to_dict(self)

    def to_json(self) -> str:
        """Return the whole report as JSON text; floats keep every bit."""
        from ens_plugin.report.serialization import indented_json

        return indented_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> EnsembleReport:
        """Return the report that :meth:`to_json` wrote as `text`.

        Raises
        ------
        InputError
            If the text is longer than any report, not JSON, not a report of a supported schema version, or holds
            numbers that no analysis finds.
        """
        if isinstance(text, (str, bytes, bytearray)) and len(text) > LONGEST_REPORT:
            raise InputError(
                f"This text has {counted(len(text), 'character')}, and a report has at most {LONGEST_REPORT}; "
                "analyse the model again, with fewer `sizes`."
            )
        try:
            content = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"This is not JSON ({str(error)[:200]}); pass the text of a report.json written by to_json()."
            ) from error
        from ens_plugin.report.serialization import report_from_dict

        return report_from_dict(cls, content)

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> Path: ...

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Return the report as one self-contained HTML page, or write the page to a file.

        Parameters
        ----------
        path : str or Path, optional
            File to write; an existing one is replaced.

        Returns
        -------
        str or Path
            The text of the page without a `path`, else the path of the file.

        Raises
        ------
        InputError
            If the directory of `path` does not exist, `path` is a directory, or the file cannot be written.

        Examples
        --------
        >>> import ens_plugin
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
        >>> report.to_html()[:15]
        '<!DOCTYPE html>'
        """
        from ens_plugin.report.html import render_page, write_page

        return render_page(self) if path is None else write_page(self, path)

    def plot(self, ax: Axes | None = None, *, label: object = None) -> Axes:
        """Draw the error curve with its interval, the marked sizes, and the infinite ensemble's error.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; those of a new figure if None.  Several reports on the same axes have the colours of its
            property cycle and one legend; :func:`ens_plugin.compare` tabulates them as well.
        label : object, optional
            Name of the ensemble in a legend, as text; the name of its model if None or empty.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        InputError
            If the axes show curves of another metric or level of intervals.

        Examples
        --------
        >>> import ens_plugin
        >>> from matplotlib.figure import Figure
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
        >>> report.plot(ax=Figure().subplots()).get_xlabel()
        'Ensemble size (members)'
        """
        from ens_plugin.report.chart_style import label_text
        from ens_plugin.report.plots import plot_reports

        return plot_reports({label_text(label) or self.model: self}, ax)

    def confusion_matrix(self) -> pd.DataFrame:
        """Return the number of rows by true label (index) and by label that their members predict (columns).

        An out-of-bag row is predicted by its out-of-bag members alone, about 37 % of the ensemble after a bootstrap.

        Returns
        -------
        DataFrame of int, shape (n_labels, n_labels)
            Empty for regression and in reports of earlier versions.

        Examples
        --------
        >>> import ens_plugin
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> int(ens_plugin.analyze(forest, X, y).confusion_matrix().to_numpy().sum())
        150
        """
        import pandas as pd

        labels = [found.label for found in self.label_errors]
        counts = [found.predicted for found in self.label_errors]
        return pd.DataFrame(counts, pd.Index(labels, name="true"), pd.Index(labels, name="predicted"), dtype="int64")

    def summary(self) -> str:
        """Return a plain-text summary, at most 80 columns wide."""
        from ens_plugin.report.text import summarize

        return summarize(self)
