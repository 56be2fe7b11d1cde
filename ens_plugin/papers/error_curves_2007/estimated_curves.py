"""Error curves of a fitted ensemble by the paper of 2007 and by this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.estimates.error_curve import binomial_curve, hypergeometric_curve, hypergeometric_limit
from ens_plugin.core.row_models.mixture import Mixture, fit_mixture
from ens_plugin.core.validation import FloatArray, IntArray, as_sizes
from ens_plugin.papers.error_curves_2007.plugin_estimate import expected_plugin_curve
from ens_plugin.papers.members import out_of_bag_members, wrong_labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curves"]

SIZES = (1, 3, 5, 11, 21, 51, 101, 201, 501, 1001, np.inf)


def curves(model: Any, X: Any, y: ArrayLike, sizes: ArrayLike = SIZES) -> pd.DataFrame:
    r"""Return the 0-1 error of an ensemble at each size, by Hernandez-Lobato et al. (2007) and by this package.

    Parameters
    ----------
    model : fitted classifier of two labels
        The estimates are for majority votes of its members' labels, whatever the model itself averages.
    X, y : array-like
        The training rows, in training order.
    sizes : array-like of int or inf, shape (n_sizes,)

    Returns
    -------
    DataFrame
        One row for each size, with the columns size; plug_in, the paper's estimate (eq. 7 and 11); unbiased, the mean
        over subsets of the out-of-bag members, NaN where few rows have enough; deconvolved, this package's; and
        plug_in_bias, which eq. 9 and 10 give for the deconvolved distribution and the rows' numbers of out-of-bag
        members.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for regressors and for more than two labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import error_curves_2007
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    >>> found = error_curves_2007.curves(forest, X, y, sizes=[1, 11, 1001])
    >>> list(found.columns)
    ['size', 'plug_in', 'unbiased', 'deconvolved', 'plug_in_bias']
    >>> bool(abs(found.unbiased[0] - found.plug_in[0]) < 1e-9)
    True
    """
    import pandas as pd

    members = out_of_bag_members(model, X, y).with_trials(1)
    wanted = as_sizes(sizes)
    trials = members.is_oob.sum(axis=0)
    wrong = (wrong_labels(members) & members.is_oob).sum(axis=0)
    rows = fit_mixture(wrong, trials)
    is_reached = wanted <= hypergeometric_limit(trials)
    unbiased = np.full(wanted.size, np.nan)
    if is_reached.any():
        unbiased[is_reached] = hypergeometric_curve(wrong, trials, wanted[is_reached])
    return pd.DataFrame(
        {
            "size": wanted,
            "plug_in": binomial_curve(wrong, trials, wanted),
            "unbiased": unbiased,
            "deconvolved": rows.error(wanted),
            "plug_in_bias": _expected_plug_in(rows, trials, wanted) - rows.error(wanted),
        }
    )


def _expected_plug_in(rows: Mixture, trials: IntArray, sizes: FloatArray) -> FloatArray:
    """Return the mean over seeds of the plug-in estimate, shape (n_sizes,), for rows with these numbers of members."""
    numbers, n_rows = np.unique(trials, return_counts=True)
    by_number = [
        expected_plugin_curve(rows.support, np.full(rows.support.size, votes), sizes, rows.weights) for votes in numbers
    ]
    return np.asarray(n_rows @ np.array(by_number) / trials.size)
