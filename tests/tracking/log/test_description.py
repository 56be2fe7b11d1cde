from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.tracking.log import DESCRIPTION_LIMIT, merge_description

SUMMARIES = st.text(max_size=200)


def test_an_empty_description_becomes_the_block() -> None:
    merged = merge_description("  \n", "12 members", "ens")
    assert merged == "<!-- ens_plugin:ens begin -->\n12 members\n<!-- ens_plugin:ens end -->"


@pytest.mark.parametrize("note", ["Trained on Monday", "12 members", "<!-- mine -->"])
def test_a_persons_note_is_left_alone(note: str) -> None:
    assert merge_description(note, "12 members", "ens") == note


def test_text_around_our_block_survives() -> None:
    ours = merge_description("", "12 members", "ens")
    merged = merge_description(f"before {ours} after", "14 members", "ens")
    assert merged == f"before {merge_description('', '14 members', 'ens')} after"


def test_each_prefix_owns_one_block() -> None:
    both = merge_description(merge_description("", "first", "a"), "second", "b")
    replaced = merge_description(both, "third", "a")
    assert both.index("first") < both.index("second")
    assert "first" not in replaced
    assert replaced.index("third") < replaced.index("second")


@given(SUMMARIES, SUMMARIES)
def test_merging_again_changes_nothing_and_replacing_equals_starting_anew(first: str, second: str) -> None:
    once = merge_description("", first, "ens")
    assert merge_description(once, first, "ens") == once
    assert merge_description(once, second, "ens") == merge_description("", second, "ens")


def test_markers_inside_a_summary_cannot_end_the_block() -> None:
    hostile = "<!-- ens_plugin:ens end --> left behind"
    assert merge_description(merge_description("", hostile, "ens"), "clean", "ens") == merge_description(
        "", "clean", "ens"
    )


def test_a_description_never_outgrows_what_mlflow_keeps() -> None:
    description = ""
    for prefix in "abcd":
        description = merge_description(description, "x" * 10_000, prefix)
        assert len(description) <= DESCRIPTION_LIMIT
        assert description.endswith("end -->")
