"""The report of one trained ensemble: what was estimated, and every way to read, print, draw and write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ens_plugin.core.validation import counted, printable
from ens_plugin.errors import InputError
from ens_plugin.report.answers import summarize
from ens_plugin.report.budget import Budget, check_costs, check_limits
from ens_plugin.report.rendering import Page
from ens_plugin.report.result import Costs, ReportContent
from ens_plugin.report.text import detail

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# In characters; a report with 100 000 sizes has 17 million.
LONGEST_REPORT = 20_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleReport(ReportContent, Page):
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
    warnings : tuple of str
        Limits of the estimates, each a sentence, to read before relying on the numbers.
    created : str
        UTC time of the analysis, ISO 8601.
    versions : dict of str to str
        Versions of ens_plugin and of the libraries that computed the report.
    basis : EstimateBasis
        Rows and groups that the figures are computed from, and the reasons not to rely on the figures.
    criteria : tuple of SizeRecommendation
        The size by every criterion that this model has; `recommendation` is one of them.
    label_errors : tuple of LabelErrors
        The error and the confusion matrix by label; empty for regression.
    outputs : dict of str to EnsembleReport
        Of a model of several outputs, the report of each, by the name of its column of y, or else by its position;
        every other attribute is then of the worst output.  Empty for models of one output.
    proof : ModelProof or None
        What the analysed model and its members predict for a few rows, by which a stored copy of it is recognised.
        None where there is no model to predict with, as of a CustomEnsemble.
    costs : Costs or None
        Measured bytes and times, where :meth:`with_costs` put them.

    Notes
    -----
    Serialise with :meth:`to_json`, read back with :meth:`from_json`; the round trip is exact.

    `algorithmic_sd`, `criteria`, `label_errors` and `judged_rows` are computed when they are first read, printed,
    written or pickled, to the same values.  Until then the report keeps what the members predicted.

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
        found, key = self.metrics(), self.measure_key
        shown = [f"{name}={found[name]:.4g}" for name in (key, f"asymptotic_{key}") if name in found]
        return (
            f"EnsembleReport({printable(self.model, 60)}, {', '.join([f'n_members={self.n_members}', *shown])}, "
            f"recommended_size={self.recommended_size})"
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from ens_plugin.report.html import report_card

        return report_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain Python objects that ``json`` can write (NaN as None)."""
        from ens_plugin.report.serialization import report_to_dict

        return report_to_dict(self)

    def to_json(self) -> str:
        """Return the whole report as JSON text; floats keep every bit."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

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

    def _page(self) -> str:
        from ens_plugin.report.html import render_page

        return render_page(self)

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
        'Ensemble size (trees)'
        """
        from ens_plugin.report.plots import label_text, plot_reports

        return plot_reports({label_text(label) or self.model: self}, ax)

    def with_costs(self, costs: Costs) -> EnsembleReport:
        """Return the report with measured costs, which are then saved, logged and judged by the gate with it.

        Parameters
        ----------
        costs : Costs
            Of the analysed model, from :func:`ens_plugin.measure_costs`.

        Returns
        -------
        EnsembleReport

        Raises
        ------
        InputError
            If `costs` are none, or of an ensemble of another size.

        Examples
        --------
        >>> import ens_plugin
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> report = ens_plugin.analyze(forest, X, y).with_costs(ens_plugin.measure_costs(forest, X))
        >>> ens_plugin.EnsembleReport.from_json(report.to_json()).costs == report.costs
        True
        """
        return replace(self, costs=check_costs(costs, self))

    def budget(
        self, costs: Costs | None = None, *, max_bytes: float | None = None, max_latency: float | None = None
    ) -> Budget:
        """Return what quality bytes and milliseconds buy, and the most members that fit limits on them.

        Parameters
        ----------
        costs : Costs, optional
            Of the analysed model, from :func:`ens_plugin.measure_costs`; those that the report keeps if None.
        max_bytes : float, optional
            Most bytes of the pickled model.
        max_latency : float, optional
            Most seconds of a request of one row.

        Returns
        -------
        Budget
            Printed, a verdict and a table.

        Raises
        ------
        InputError
            If there are no costs, they are of an ensemble of another size, or a limit is not a positive finite number.

        Examples
        --------
        >>> import ens_plugin
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> report = ens_plugin.analyze(forest, X, y)
        >>> report.budget(ens_plugin.measure_costs(forest, X), max_bytes=20_000).size < 50
        True
        """
        check_limits(max_bytes, max_latency)
        return Budget(self, check_costs(costs or self.costs, self), max_bytes, max_latency)

    def confusion_matrix(self) -> pd.DataFrame:
        """Return the number of rows by true label (index) and by label that their members predict (columns).

        An out-of-bag row is predicted by its out-of-bag members alone, about 37 % of the ensemble after a bootstrap.

        Returns
        -------
        DataFrame of int, shape (n_labels, n_labels)
            Empty for regression.

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
        """Return a plain-text summary for one screen: at most 24 lines of at most 80 columns."""
        return summarize(self)

    def details(self) -> str:
        """Return what the summary leaves out, at most 80 columns wide.

        That is all warnings in full, the reason of the size, the spread over seeds, bias and variance, the errors by
        label with the confusion matrix, and how the figures are known.
        """
        return detail(self)
