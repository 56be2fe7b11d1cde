"""Expected loss of a fitted ensemble at each size, by the universal tables of 2017."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import as_sizes
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.papers.members import Members, label_probabilities, out_of_bag_members
from ens_plugin.papers.score_tables_2017.beta_probabilities import shrink_beta_probabilities
from ens_plugin.papers.score_tables_2017.cache import load_score_tables
from ens_plugin.papers.score_tables_2017.matched_scores import fit_matched_scores, shrink_matched_scores
from ens_plugin.papers.score_tables_2017.score_losses import ScoreRows, loss_curve

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["score_errors"]

SIZES = (1, 3, 5, 11, 21, 51, 101, 201, 501, 1001)


def score_errors(
    model: Any,
    X: Any,
    y: ArrayLike,
    sizes: ArrayLike = SIZES,
    *,
    loss: str = "zero_one",
    aggregation: str = "mean_proba",
) -> pd.DataFrame:
    """Return an ensemble's estimated loss at each size, by the tables of Mahajan et al. (2017) and variants of them.

    Parameters
    ----------
    model : fitted classifier of two labels
        Its members have probabilities.
    X, y : array-like
        The training rows, in training order.
    sizes : array-like of int or inf, shape (n_sizes,)
    loss : {"zero_one", "log", "squared"}
    aggregation : {"mean_proba", "mean_score", "vote"}
        What the ensemble averages.

    Returns
    -------
    DataFrame
        One row for each size, with the columns size; plug_in, each row's uncorrected scores (Algorithm 1, with normal
        scores matched to the probabilities); shrunken, not in the paper, without the noise of few members; and
        shrunken_beta, with beta probabilities in place of normal scores (section A.3).

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError unless members have probabilities of two labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import score_tables_2017
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> found = score_tables_2017.score_errors(forest, X, y, sizes=[1, 11, 101])
    >>> list(found.columns)
    ['size', 'plug_in', 'shrunken', 'shrunken_beta']
    """
    import pandas as pd

    members = out_of_bag_members(model, X, y).with_trials(2)
    truth = _probability_of_truth(members)
    tables = load_score_tables()
    wanted = as_sizes(sizes)
    rows: dict[str, ScoreRows] = {
        "plug_in": fit_matched_scores(truth, tables, members.is_oob),
        "shrunken": shrink_matched_scores(truth, tables, members.is_oob),
        "shrunken_beta": shrink_beta_probabilities(truth, members.is_oob),
    }
    found = {name: loss_curve(of, wanted, tables, loss=loss, aggregation=aggregation) for name, of in rows.items()}
    return pd.DataFrame({"size": wanted, **found})


def _probability_of_truth(members: Members) -> np.ndarray[Any, np.dtype[np.float64]]:
    if members.output_kind != "probabilities" or members.n_labels != 2:
        raise UnsupportedModelError(
            "The tables of 2017 need members with probabilities of two labels; this ensemble's members have "
            f"{members.output_kind}, and there are {members.n_labels or 'no'} labels. Use ens_plugin.analyze instead."
        )
    probabilities = label_probabilities(members.outputs, members)
    return np.asarray(probabilities[:, np.arange(members.target.size), members.target.astype(np.intp)])
