"""The papers' figures: what is drawn, and that no text covers another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.core.error_curve import agreement
from ens_plugin.errors import InputError
from ens_plugin.papers import ensemble_size_2013, error_curves_2007, score_tables_2017
from ens_plugin.papers.ensemble_size_2013 import limiting_disagreement, row_size_tail
from ens_plugin.papers.error_curves_2007 import expected_plugin_error
from ens_plugin.papers.plots import (
    plot_disagreement,
    plot_estimated_curves,
    plot_expected_plugin_error,
    plot_row_size_tail,
    plot_row_sizes,
)
from tests.report.test_plots import misplaced, new_axes

RNG = np.random.default_rng(0)
ROWS = RNG.beta(1.5, 3.0, size=500)
SIZES = [1, 5, 21, 101, 501]
TWO_SIZES = pd.DataFrame({"size": [1, 3], "estimate": [0.2, 0.1]})
FOUND = 1 - agreement(ROWS, None, SIZES)

FIGURES: dict[str, Callable[[Axes], Axes]] = {
    "expected plug-in": lambda ax: plot_expected_plugin_error([1, 18, 50, 135], ax=ax),
    "expected plug-in at infinity": lambda ax: plot_expected_plugin_error([18], np.inf, ax=ax),
    "estimated curves": lambda ax: plot_estimated_curves(
        pd.DataFrame({"size": SIZES, "M = 50": [0.3, 0.25, 0.2, 0.18, 0.17]}), [0.3, 0.2, 0.15, 0.12, 0.11], ax=ax
    ),
    "row sizes": lambda ax: plot_row_sizes(np.append(ROWS, 0.5), ax=ax),
    "row size tail": lambda ax: plot_row_size_tail(ROWS, 0.9, ax=ax),
    "disagreement": lambda ax: plot_disagreement(SIZES, FOUND, 0.9, ax=ax),
}


def drawn(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_ydata(), dtype=np.float64)


def labelled(ax: Axes, label: str) -> NDArray[np.float64]:
    return drawn(next(line for line in ax.get_lines() if line.get_label() == label))


@pytest.mark.fast_cases(
    "inches1-expected plug-in",
    "inches1-expected plug-in at infinity",
    "inches1-estimated curves",
    "inches1-row sizes",
    "inches1-row size tail",
    "inches1-disagreement",
)
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("inches", [(6.4, 4.0), (3.6, 2.9)])
def test_axes_are_named_and_no_text_is_covered(name: str, inches: tuple[float, float]) -> None:
    ax = new_axes(inches)
    assert FIGURES[name](ax) is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert misplaced(ax) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_expected_plugin_error([5]),
        lambda: plot_estimated_curves(TWO_SIZES, [0.2, 0.1]),
        lambda: plot_row_sizes(ROWS),
        lambda: plot_row_size_tail(ROWS, 0.9),
        lambda: plot_disagreement(SIZES, FOUND, 0.9),
    ],
)
def test_new_axes_are_made_when_none_are_given(draw: Callable[[], Axes]) -> None:
    before = plt.get_fignums()
    ax = draw()
    try:
        assert len(plt.get_fignums()) == len(before) + 1
    finally:
        figure = ax.get_figure()
        assert figure is not None
        plt.close(figure)


def test_expected_plugin_lines_are_eq_10() -> None:
    ax = plot_expected_plugin_error([1, 18], 101, ax=new_axes())
    p = np.linspace(0, 1, 401)
    np.testing.assert_allclose(labelled(ax, "M = 1"), p, atol=1e-12)
    np.testing.assert_allclose(labelled(ax, "M = 18"), expected_plugin_error(p, 18, [101])[0])
    assert labelled(ax, "M → ∞")[[0, 200, 400]].round(12).tolist() == [0.0, 0.5, 1.0]


def test_estimated_curves_are_drawn_as_given() -> None:
    curves = pd.DataFrame({"size": [1, 3, np.inf], "a": [0.3, 0.2, 0.1], "plug_in_bias": 0.1, "b": [0.1, np.nan, 0.1]})
    ax = plot_estimated_curves(curves, [0.2, 0.1, 0.1], ax=new_axes())
    lines = [drawn(line) for line in ax.get_lines()]
    np.testing.assert_array_equal(lines, [[0.2, 0.1], [0.3, 0.2], [0.1, np.nan]])
    assert len(plot_estimated_curves(curves, ax=new_axes()).get_lines()) == 2


def test_figures_take_what_the_functions_return() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(40, min_samples_leaf=5, random_state=0).fit(X, y)
    found = error_curves_2007.curves(forest, X, y)
    ax = plot_estimated_curves(found, ax=new_axes())
    np.testing.assert_array_equal(labelled(ax, "deconvolved"), found.deconvolved[np.isfinite(found["size"])])
    losses = score_tables_2017.score_errors(forest, X, y, sizes=[1, 11, 101], loss="squared")
    ax = plot_estimated_curves(losses, ax=new_axes())
    np.testing.assert_array_equal(labelled(ax, "plug_in"), losses.plug_in)
    assert ax.get_ylabel() == "Squared loss"
    rows = ensemble_size_2013.row_sizes(forest, X, y, confidence=0.9)
    assert "90 % confidence" in plot_row_sizes(rows, ax=new_axes()).get_xlabel()
    assert "90 % confidence" in plot_row_size_tail(rows, 0.1, ax=new_axes()).get_ylabel()
    assert "99 % confidence" in plot_row_sizes(rows, confidence=0.99, ax=new_axes()).get_xlabel()
    rows = ensemble_size_2013.row_sizes(forest, X, y)
    for draw in (plot_row_sizes, lambda *given, ax: plot_row_size_tail(*given, 0.1, ax=ax)):
        whole, column = (draw(given, ax=new_axes()) for given in (rows, rows.probability))
        assert [bar.get_height() for bar in whole.patches] == [bar.get_height() for bar in column.patches]
        assert [str(drawn(line)) for line in whole.get_lines()] == [str(drawn(line)) for line in column.get_lines()]


def test_row_sizes_are_a_histogram_of_the_settled_rows() -> None:
    ax = plot_row_sizes([0.0, 0.2, 0.45, 0.5], weight=[1, 2, 1, 4], ax=new_axes())
    heights = [bar.get_height() for bar in ax.patches if bar.get_height()]  # type: ignore[attr-defined]
    assert heights == [1 / 8, 2 / 8, 1 / 8]
    assert "(50 % never are)" in ax.get_xlabel()
    assert "never" not in plot_row_sizes([0.2], ax=new_axes()).get_xlabel()
    assert not any(bar.get_height() for bar in plot_row_sizes([0.5], ax=new_axes()).patches)  # type: ignore[attr-defined]


def test_tail_and_law_are_those_of_the_core() -> None:
    ax = plot_row_size_tail(ROWS, 0.9, confidence=0.95, ax=new_axes())
    sizes = np.asarray(ax.get_lines()[0].get_xdata(), dtype=np.float64)
    tail = row_size_tail(ROWS, sizes, 0.95)
    np.testing.assert_allclose(labelled(ax, "measured"), np.where(tail > 0, tail, np.nan))
    law = labelled(ax, "law for large ensembles")
    slope = np.diff(np.log(law)) / np.diff(np.log(sizes))
    np.testing.assert_allclose(slope[np.isfinite(slope)], -0.5)


def test_disagreement_and_law() -> None:
    ax = plot_disagreement(SIZES, FOUND, 0.9, ax=new_axes())
    np.testing.assert_allclose(labelled(ax, "measured"), FOUND)
    np.testing.assert_allclose(labelled(ax, "law for large ensembles"), limiting_disagreement(0.9, SIZES))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_expected_plugin_error(list(range(1, 9))), "n_votes has 8 lines"),
        (lambda: plot_expected_plugin_error([0]), "n_votes must be a whole number"),
        (lambda: plot_expected_plugin_error([3], 0), "sizes must hold whole numbers"),
        (lambda: plot_estimated_curves(TWO_SIZES, [0.1]), "test_error must have length 2"),
        (lambda: plot_estimated_curves(pd.DataFrame({"a": [0.1]})), "column named size"),
        (lambda: plot_estimated_curves(TWO_SIZES.assign(a=[0.1, 1.2])), "a must hold losses"),
        (lambda: plot_estimated_curves(TWO_SIZES.assign(a=[0.1, -1.2]), loss="log"), "a must hold losses"),
        (lambda: plot_estimated_curves(TWO_SIZES, loss="hinge"), "loss must be one of"),
        (lambda: plot_estimated_curves(TWO_SIZES.assign(fit=["normal", "shrunken"])), "fit must hold numbers"),
        (lambda: plot_row_sizes([1.2]), "probability must lie in"),
        (lambda: plot_row_sizes([0.2], confidence=0.2), "confidence must lie"),
        (lambda: plot_row_sizes([0.2], weight=[1, 1]), "weight must have length 1"),
        (lambda: plot_row_size_tail([0.2], -1.0), "density must be"),
        (lambda: plot_disagreement([1], [0.1, 0.2], 1.0), "disagreement must have length 1"),
        (lambda: plot_disagreement([1], [0.1], np.nan), "density must be"),
    ],
)
def test_bad_input_is_named(draw: Callable[[], Any], message: str) -> None:
    before = plt.get_fignums()
    with pytest.raises(InputError, match=message):
        draw()
    for number in set(plt.get_fignums()) - set(before):
        plt.close(number)


TWICE = {name: draw for name, draw in FIGURES.items() if name != "expected plug-in at infinity"}


@pytest.mark.parametrize("name", TWICE)
def test_two_figures_on_one_axis_are_told_apart(name: str) -> None:
    ax = new_axes((6.4, 4.0))
    TWICE[name](TWICE[name](ax))
    solid = [line.get_color() for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert len(set(map(str, solid))) == len(solid)
    labels = ax.get_legend_handles_labels()[1]
    assert len(set(labels)) == len(labels)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == labels


def test_another_quantity_on_the_same_axes_is_refused() -> None:
    ax = plot_disagreement(SIZES, FOUND, 0.9, ax=new_axes())
    with pytest.raises(InputError, match="These axes show 'Disagreement with the infinite ensemble"):
        plot_row_size_tail(ROWS, 0.9, ax=ax)
    ax.clear()
    plot_row_size_tail(ROWS, 0.9, ax=ax)
