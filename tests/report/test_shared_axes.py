"""Several reports in one chart: each with a name and a colour of its own, and none hides another."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ens_plugin.errors import InputError
from ens_plugin.report.plots import plot_agreement
from tests.report.charts import REPORTS, draw, drawn_curves, heights, labels_above, misplaced, new_axes


@pytest.mark.slow
def test_two_curves_on_the_same_axes_share_limits_and_legend() -> None:
    ax = new_axes()
    ax.plot([10, 100], [0.2, 0.3], label="own line")
    assert REPORTS["classification"].plot(ax=ax) is ax
    assert REPORTS["rising"].plot(ax=ax, label="rising") is ax
    draw(ax)
    curves = drawn_curves(ax)
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert [line.get_color() for line in curves] == cycle[1:3]
    low, high = ax.get_ylim()
    first, last = ax.get_xlim()
    for line, report in zip(curves, (REPORTS["classification"], REPORTS["rising"]), strict=True):
        sizes, values = np.asarray(line.get_xdata()), np.asarray(heights(line))
        assert (sizes[0], sizes[-1]) == pytest.approx((first, last))
        assert ((low < values) & (values < high)).all()
        np.testing.assert_allclose(values, [1.0 - report.error_curve.at(size) for size in sizes], rtol=1e-12)
    legend = ax.get_legend()
    names = ["own line", "RandomForestClassifier", "rising", "current size", "recommended size", "infinite ensemble"]
    assert [text.get_text() for text in legend.get_texts()] == names
    assert labels_above(ax) == []
    assert misplaced(ax) == []


def test_the_same_name_twice_is_numbered() -> None:
    ax = new_axes()
    for _ in range(3):
        REPORTS["classification"].plot(ax=ax)
    labels = [str(line.get_label()) for line in drawn_curves(ax)]
    assert labels == ["RandomForestClassifier", "RandomForestClassifier (2)", "RandomForestClassifier (3)"]


@pytest.mark.parametrize("other", ["regression", "score"])
def test_a_curve_of_another_metric_is_refused_and_draws_nothing(other: str) -> None:
    ax = new_axes()
    REPORTS["classification"].plot(ax=ax)
    before = len(ax.get_children()), ax.get_xlim(), ax.get_ylim()
    with pytest.raises(InputError, match="cannot be read off the same axis"):
        REPORTS[other].plot(ax=ax)
    assert before == (len(ax.get_children()), ax.get_xlim(), ax.get_ylim())


def test_agreements_share_axes_and_other_criteria_are_refused() -> None:
    ax = new_axes()
    for name in ("classification", "large_classification"):
        plot_agreement(REPORTS[name].criteria[0], n_members=200, label=name, ax=ax)
    draw(ax)
    assert [line.get_label() for line in drawn_curves(ax)] == ["classification", "large_classification"]
    assert ax.get_legend() is not None
    with pytest.raises(InputError, match="cannot be read off the same axis"):
        plot_agreement(REPORTS["regression"].recommendation, ax=ax)
