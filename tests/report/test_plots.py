"""Figures: what is drawn where, and that no text ever covers another."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from weakref import ref

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.report.plots import (
    default_style,
    plot_agreement,
    plot_error_curve,
    plot_reports,
    report_figures,
)
from tests import reports
from tests.report.charts import NARROW, REPORTS, WIDE, draw, drawn_curves, heights, labels_above, misplaced, new_axes


def test_the_check_of_placement_sees_covered_and_leaving_text() -> None:
    ax = new_axes()
    ax.set_axis_off()
    for text in ("one", "other"):
        ax.text(0.5, 0.5, text, in_layout=False)
    ax.text(3.0, 0.5, "far", in_layout=False)
    assert misplaced(ax) == ["'one' covers 'other'", "'far' leaves the figure"]


def test_error_curve_names_its_axes_with_units() -> None:
    ax = plot_error_curve(REPORTS["classification"].error_curve, ax=new_axes())
    assert ax.get_xlabel() == "Ensemble size (members)"
    assert ax.get_ylabel() == "Accuracy (%)\nshaded: 95 % interval"
    assert ax.get_xscale() == "log"


def test_error_curve_of_a_regression_is_not_in_percent() -> None:
    ax = plot_error_curve(REPORTS["regression"].error_curve, ax=new_axes())
    assert ax.get_ylabel().startswith("RMSE\n")


def test_error_line_has_no_steps_where_votes_tie() -> None:
    error = np.array([0.4, 0.4, 0.2, 0.2, 0.1])
    curve = replace(
        REPORTS["classification"].error_curve,
        sizes=np.arange(1, 6), error=error, lower=error, upper=error, asymptote=0.05, ties_to=np.inf,
    )  # fmt: skip
    ax = plot_error_curve(curve, ax=new_axes())
    line = next(line for line in ax.lines if line.get_label() == "error")
    assert np.all(np.diff(heights(line)) > 0)


def test_error_ticks_are_percent_and_size_ticks_plain_numbers() -> None:
    ax = plot_error_curve(REPORTS["rising"].error_curve, n_members=51, recommended_size=8507, ax=new_axes())
    draw(ax)
    names = [tick.get_text() for tick in ax.get_xticklabels()]
    assert {"10", "100", "1\u202f000", "10\u202f000"} <= set(names)
    low, high = ax.get_ylim()
    percents = [float(tick.get_text()) for tick in ax.get_yticklabels() if tick.get_text()]
    assert all(100 * low - 5 < value < 100 * high + 5 for value in percents)


def test_error_line_and_band_hold_the_values_of_the_curve() -> None:
    curve = REPORTS["classification"].error_curve
    ax = plot_error_curve(curve, n_members=200, ax=new_axes())
    line = next(line for line in ax.lines if line.get_label() == "error")
    sizes, errors = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    tabulated = np.isin(curve.sizes, sizes)
    assert tabulated.sum() > 20
    np.testing.assert_allclose(errors[np.isin(sizes, curve.sizes)], 1.0 - curve.error[tabulated], rtol=1e-12)
    (band,) = ax.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    one = int(np.flatnonzero(tabulated)[10])
    edges = corners[np.isclose(corners[:, 0], curve.sizes[one]), 1]
    assert (edges.min(), edges.max()) == pytest.approx((1.0 - curve.upper[one], 1.0 - curve.lower[one]))


def test_asymptote_is_a_dashed_line_at_its_value() -> None:
    curve = REPORTS["classification"].error_curve
    ax = plot_error_curve(curve, ax=new_axes())
    flat = [line for line in ax.lines if heights(line) == [1.0 - curve.asymptote] * 2]
    assert len(flat) == 1
    assert flat[0].is_dashed()
    assert f"infinite\nensemble\n{100 * (1.0 - curve.asymptote):.1f} %" in [text.get_text() for text in ax.texts]


def test_marks_tell_size_and_error() -> None:
    report = REPORTS["classification"]
    ax = plot_error_curve(report.error_curve, n_members=200, recommended_size=59, ax=new_axes())
    assert labels_above(ax) == [
        f"current 200: {100 * report.accuracy:.1f} %",
        f"recommended 59: {100 * (1.0 - report.error_curve.at(59)):.1f} %",
    ]


def test_equal_sizes_share_one_mark() -> None:
    ax = plot_error_curve(REPORTS["classification"].error_curve, n_members=59, recommended_size=59, ax=new_axes())
    assert [text.split(":")[0] for text in labels_above(ax)] == ["current = recommended 59"]


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="at least 1 member"):
        plot_error_curve(REPORTS["classification"].error_curve, n_members=size, ax=new_axes())


@pytest.mark.parametrize("ax", [np.array([None, None]), "axes", 0])
def test_what_is_no_axes_is_refused(ax: Any) -> None:
    with pytest.raises(InputError, match=r"ax is of type .* and no axes of matplotlib; pass one"):
        REPORTS["classification"].plot(ax)


def test_limits_show_marks_and_leave_out_single_members() -> None:
    ax = plot_error_curve(
        REPORTS["large_classification"].error_curve, n_members=300, recommended_size=609, ax=new_axes()
    )
    low, high = ax.get_xlim()
    assert low == 5
    assert high > 609


def test_a_small_ensemble_is_shown_from_one_member() -> None:
    ax = plot_error_curve(REPORTS["perfect"].error_curve, n_members=3, recommended_size=1, ax=new_axes())
    assert ax.get_xlim()[0] == 1


def test_cleared_axes_are_as_new() -> None:
    ax = new_axes()
    REPORTS["classification"].plot(ax=ax)
    ax.clear()
    REPORTS["regression"].plot(ax=ax)
    assert len(drawn_curves(ax)) == 1
    assert labels_above(ax) != []


def test_marks_are_legible_on_a_dark_background() -> None:
    with plt.style.context("dark_background"):
        ax = REPORTS["classification"].plot(ax=new_axes())
    colours = [to_rgb(text.get_color()) for text in ax.texts]
    assert len(colours) == 3
    assert all(max(colour) > 0.6 for colour in colours)


@pytest.mark.slow
def test_charts_are_forgotten_with_their_figures() -> None:
    ax = new_axes()
    REPORTS["classification"].plot(ax=ax)
    line = ref(drawn_curves(ax)[0])
    del ax
    gc.collect()
    assert line() is None


def test_without_axes_a_new_figure_is_made() -> None:
    ax = plot_error_curve(REPORTS["classification"].error_curve)
    try:
        assert [plt.figure(number).axes for number in plt.get_fignums()] == [[ax]]
    finally:
        plt.close("all")


@pytest.mark.parametrize(
    ("place", "label", "level"),
    [
        (0, "Labels as with infinitely many (%)", "infinite\nensemble\n100 %"),
        (1, "Error", "infinite\nensemble\n0.04078"),
        (2, "Brier score of the probabilities", "infinite\nensemble\n0.03027"),
    ],
)
def test_each_respect_has_its_own_quantity_limit_and_band(place: int, label: str, level: str) -> None:
    found = REPORTS["classification"].criteria[place]
    ax = plot_agreement(found, n_members=200, ax=new_axes())
    assert ax.get_ylabel() == label
    assert level in [text.get_text() for text in ax.texts]
    (band,) = [patch for patch in ax.patches if patch.get_label() == "enough"]
    assert isinstance(band, Rectangle)
    ends = sorted((found.limit, found.limit + (-found.tolerance if place == 0 else found.tolerance)))
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx(ends)


def test_infinite_excess_is_drawn_without_an_error() -> None:
    recommendation = REPORTS["negative_asymptote"].recommendation
    recommendation = replace(recommendation, loss=math.inf, losses=np.full(recommendation.sizes.size, np.inf))
    ax = plot_agreement(recommendation, n_members=20, ax=new_axes())
    assert labels_above(ax) == ["current 20"]
    assert np.isfinite(ax.get_ylim()).all()


@pytest.mark.fast_cases("classification", "regression", "hostile")
@pytest.mark.parametrize("name", REPORTS)
def test_report_figures_are_complete_and_readable(name: str) -> None:
    figures = report_figures(REPORTS[name])
    assert sorted(figures) == ["agreement.png", "error_curve.png"]
    for figure in figures.values():
        (ax,) = figure.axes
        assert misplaced(ax) == []
    assert plt.get_fignums() == []


def test_report_figures_ignore_a_dark_style() -> None:
    with plt.style.context("dark_background"):
        figure = report_figures(REPORTS["classification"])["error_curve.png"]
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.fast_cases("classification-2-inches0", "rising-15000-inches1", "rising-10-inches1")
@pytest.mark.parametrize("inches", [WIDE, NARROW])
@pytest.mark.parametrize(
    ("name", "n_members"), [("classification", 2), ("classification", 101), ("rising", 10), ("rising", 15_000)]
)
def test_no_text_of_the_error_curve_covers_another(name: str, n_members: int, inches: tuple[float, float]) -> None:
    curve = REPORTS[name].error_curve
    for recommended in (1, 101, 129, 20_001, None):
        ax = plot_error_curve(curve, n_members=n_members, recommended_size=recommended, ax=new_axes(inches))
        assert misplaced(ax) == [], recommended


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("neg_median_absolute_error", None),
        ("neg_root_mean_squared_log_error", None),
        ("average_precision", "malignant growth"),
    ],
)
@pytest.mark.parametrize("inches", [WIDE, NARROW])
def test_the_name_of_a_long_metric_stays_within_the_figure(
    metric: str, label: str | None, inches: tuple[float, float]
) -> None:
    report = reports.label_report(label, metric)
    with plt.rc_context({"font.size": 9.5}):
        ax = plot_error_curve(report.error_curve, ax=new_axes(inches))
        assert misplaced(ax) == []


@pytest.mark.fast_cases("2-classification", "2000-capped", "10-regression")
@pytest.mark.parametrize("name", ["classification", "regression", "capped", "rising", "perfect"])
@pytest.mark.parametrize("n_members", [2, 10, 2000])
def test_no_text_of_the_agreement_covers_another(name: str, n_members: int) -> None:
    ax = plot_agreement(REPORTS[name].recommendation, n_members=n_members, ax=new_axes(NARROW))
    assert misplaced(ax) == []


def test_plots_leave_the_report_as_it_was() -> None:
    report: EnsembleReport = reports.classification_report()
    before = report.to_json()
    report_figures(report)
    assert report.to_json() == before


def test_the_axis_shows_the_values_among_which_sizes_are_chosen() -> None:
    curve = REPORTS["classification"].error_curve
    steep = replace(
        REPORTS["classification"],
        error_curve=replace(
            curve, error=curve.asymptote + 2.0 / curve.sizes, lower=curve.asymptote + 1.9 / curve.sizes,
            upper=curve.asymptote + 2.1 / curve.sizes,
        ),
    )  # fmt: skip
    bottom, top = plot_reports({"forest": steep}, Figure().subplots()).get_ylim()
    limit = 1.0 - curve.asymptote
    assert limit - 6.5 * (limit - steep.accuracy) < bottom < limit - 5.0 * (limit - steep.accuracy)
    assert limit < top < limit + 0.01


@pytest.mark.slow
def test_threads_that_draw_leave_the_users_style_alone() -> None:
    filters, settings = list(warnings.filters), dict(plt.rcParams)
    with ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(report_figures, [REPORTS["classification"], REPORTS["regression"]]))
    assert [len(figures) for figures in drawn] == [2, 2]
    assert dict(plt.rcParams) == settings
    assert warnings.filters == filters


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_a_thread_draws_can_draw() -> None:
    drawing, done = threading.Event(), threading.Event()

    def hold() -> None:
        with default_style():
            drawing.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert drawing.wait(10)
    child = multiprocessing.get_context("fork").Process(target=report_figures, args=(REPORTS["classification"],))
    child.start()
    child.join(60)
    done.set()
    thread.join()
    code = child.exitcode
    child.kill()
    assert code == 0
