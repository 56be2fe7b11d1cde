from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from ens_plugin import PermutationImportance
from ens_plugin.oob.importance import JudgedRows
from tests.report.test_plots import new_axes


def found(names: tuple[str, ...], mean: list[float]) -> PermutationImportance:
    values = np.array(mean)
    return PermutationImportance(
        importances=values[:, None],
        importances_mean=values,
        importances_std=np.zeros(values.size),
        standard_error=np.full(values.size, 0.01),
        feature_names=names,
        error=0.2,
        n_rows=100,
        warnings=(),
        judged=cast(JudgedRows, None),  # for lists alone
    )


FIRST = found(("a", "b", "c"), [0.1, 0.3, 0.2])
SECOND = found(("a", "b", "d"), [0.4, 0.0, 0.1])


def test_bars_are_in_order_of_importance() -> None:
    ax = FIRST.plot(new_axes())
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "c", "b"]
    assert [bar.get_width() for bar in ax.patches] == [0.1, 0.2, 0.3]  # type: ignore[attr-defined]
    assert ax.get_legend() is None


def test_lines_reach_two_standard_errors_to_both_sides() -> None:
    ax = FIRST.plot(new_axes())
    (lines,) = (line for line in ax.collections if isinstance(line, LineCollection))
    ends = [segment[:, 0] for segment in lines.get_segments()]
    np.testing.assert_allclose(ends, [[0.08, 0.12], [0.18, 0.22], [0.28, 0.32]])


def test_two_ensembles_on_one_axis_stand_side_by_side_in_their_own_colours() -> None:
    ax = new_axes()
    ax.set_prop_cycle(color=["#112233", "#445566"])
    assert SECOND.plot(FIRST.plot(ax, label="forest"), label="forest") is ax
    assert [text.get_text() for text in ax.get_yticklabels()] == ["d", "c", "b", "a"]
    edges = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches)  # type: ignore[attr-defined]
    assert len(edges) == 8
    assert all(upper <= lower + 1e-9 for (_, upper), (lower, _) in pairwise(edges))
    assert sorted({to_hex(bar.get_facecolor()) for bar in ax.patches}) == ["#112233", "#445566"]
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["forest", "forest (2)"]


def test_no_more_than_twenty_columns_are_drawn() -> None:
    many = found(tuple(f"x{number}" for number in range(30)), [float(number) for number in range(30)])
    ax = many.plot(new_axes())
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"x{number}" for number in range(10, 30)]


def test_the_text_has_the_most_important_columns_first() -> None:
    names = tuple(f"x{place}" for place in range(12))
    lines = str(found(names, [float(place == 7) for place in range(12)])).splitlines()
    assert lines[0] == "PermutationImportance of 12 columns, the 10 most important:"
    assert lines[3].startswith("x7 ")
    assert len([line for line in lines if line.startswith("x")]) == 10


def test_the_axis_names_the_lines_where_there_are_any() -> None:
    certain = found(("a", "b"), [1.0, 2.0])
    assert "two standard errors" in certain.plot(ax=new_axes()).get_xlabel()
    unknown = replace(certain, standard_error=np.full(2, np.nan))
    assert unknown.plot(ax=new_axes()).get_xlabel() == "Rise of the out-of-bag error"
