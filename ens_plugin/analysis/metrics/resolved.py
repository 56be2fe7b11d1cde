"""A metric, checked and ready to be computed from y and mean outputs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import counted, one_line, shown
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.records import record

__all__ = ["ResolvedMetric", "accepts_weights", "ranking_caution"]

# With 120 rows of a rare label the area and the average precision out of bag were those on fresh rows; with 40 the
# average precision was 0.07 too low.
FEWEST_RANKED = 100

LIBRARY = r"sklearn\."

Evaluate = Callable[[NDArray[Any], NDArray[Any], "NDArray[Any] | None"], float]
Chance = Callable[[NDArray[Any], "NDArray[Any] | None"], float]


@record
class ResolvedMetric:
    """A metric of y and mean outputs, with its direction, its range and what its tolerance is relative to.

    Attributes
    ----------
    name : str
        That of scikit-learn's scorer, or of the user's function.
    evaluate : callable
        ``evaluate(y, mean_output, sample_weight)``; y has the labels as the user gave them, and `sample_weight` is
        None where all rows count the same.
    greater_is_better : bool
        True for scores of scikit-learn, negated losses included; False for a user's own function.
    lowest, highest : float
        Range of the values that the metric can have; infinite where it is not known.
    is_absolute : bool
        Whether a given `tolerance` is a distance in the unit of the metric; else it is relative to the value of the
        infinite ensemble.
    takes_weights : bool
    compares_rows : bool
        Whether it ranks rows of one label against rows of another.
    is_joint : bool
        Whether it is the mean over several outputs, which takes positions of rows in place of y.
    is_share : bool
        Whether it is the share of the target's spread that is explained, which a constant target has none of.
    positive_label : str or None
        The label that was named as the positive one, as text.
    chance : callable or None
        ``chance(y, sample_weight)`` returns what predictions score that know of the rows only how often each label
        occurs, or the mean; None where the default tolerance is relative to the metric itself.
    caution : str
        What a report must say of how the metric was chosen; mostly empty.
    """

    name: str
    evaluate: Evaluate
    greater_is_better: bool
    lowest: float
    highest: float
    is_absolute: bool
    takes_weights: bool
    compares_rows: bool = False
    is_joint: bool = False
    is_share: bool = False
    positive_label: str | None = None
    chance: Chance | None = None
    caution: str = ""

    def chance_level(self, target: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
        """Return the score of chance on the weighted rows, which a default tolerance is relative to; 0 of losses."""
        if self.chance is None:
            return 0.0
        with warnings.catch_warnings():
            # They are about labels that nothing is predicted to be, which is so by chance.
            warnings.filterwarnings("ignore", category=UserWarning, module=LIBRARY)
            return self.chance(target, weight)

    def value(self, target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
        """Return the metric of the target and the mean outputs, on the weighted rows where weights are given.

        Raises
        ------
        InputError
            If the metric fails or returns no finite number.
        """
        try:
            with warnings.catch_warnings():
                # A scorer is evaluated on hundreds of samples of the rows; warnings_on has its warnings on all rows.
                warnings.filterwarnings("ignore", category=UserWarning, module=LIBRARY)
                found = float(self.evaluate(target, mean, weight))
        except EnsPluginError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise InputError(
                f"metric {self.name!r} failed on y of shape {target.shape} and mean output of shape {mean.shape}: "
                f"{shown(error)}"
            ) from error
        if not np.isfinite(found):
            better = "greater" if self.greater_is_better else "lower"
            raise InputError(
                f"metric {self.name!r} returned {found}; it must return a finite number, {better} is better."
            )
        return found

    def warnings_on(
        self, target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[str, ...]:
        """Return the warnings that scikit-learn issues where the metric is computed on these rows, each once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", category=UserWarning, module=LIBRARY)
            self.evaluate(target, mean, weight)
        texts = dict.fromkeys(one_line(str(each.message)) for each in caught if "sklearn" in each.filename)
        return tuple(f"scikit-learn warns of the {self.name}: {text}" for text in texts)


def accepts_weights(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``sample_weight``.

    Examples
    --------
    >>> accepts_weights(lambda y, mean_output, sample_weight=None: 0.0), accepts_weights(lambda y, mean_output: 0.0)
    (True, False)
    """
    try:
        return "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions written in C may have no signature
        return False


def ranking_caution(metric: ResolvedMetric, block: RowBlock) -> tuple[str, ...]:
    """Return a warning where few out-of-bag rows of a label are ranked, each by members of its own."""
    if not metric.compares_rows or block.counted.all():
        return ()
    n_rows = np.bincount(block.target, minlength=block.n_labels)
    fewest = int(n_rows[n_rows > 0].min())
    if fewest >= FEWEST_RANKED:
        return ()
    return (
        f"Only {counted(fewest, 'row has', 'rows have')} the rarest label, and {metric.name} ranks rows that "
        "different out-of-bag members predict: its level may be far from that on fresh rows. Compare it with that on "
        "held-out rows.",
    )
