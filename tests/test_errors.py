"""The exceptions a user can meet."""

from __future__ import annotations

import inspect
import pickle
import traceback
from pathlib import Path

import pytest

import ens_plugin
from ens_plugin import errors

SOURCES = Path(ens_plugin.__file__).parent


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_an_error_is_its_message_alone_and_arrives_whole_from_another_process(name: str) -> None:
    error = getattr(errors, name)("what was found")
    assert isinstance(error, errors.EnsPluginError)
    assert vars(error) == {}
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "what was found"


@errors.ends_at_caller
def refused_below(cause: Exception | None) -> None:
    def inner() -> None:
        raise errors.InputError("what was found") from cause

    inner()


def frames_of(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_a_refusal_is_shown_with_the_line_of_the_caller_and_no_frames_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENS_PLUGIN_TRACEBACK")
    with pytest.raises(errors.InputError) as caught:
        refused_below(errors.BagError("of the package"))
    assert frames_of(caught.value)[1:] == ["door"]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    # What a function of the user raised is shown.
    with pytest.raises(errors.InputError) as caught:
        refused_below(ZeroDivisionError("of the user"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.setenv("ENS_PLUGIN_TRACEBACK", "full")
    with pytest.raises(errors.InputError) as caught:
        refused_below(None)
    assert frames_of(caught.value)[1:] == ["door", "refused_below", "inner"]


def test_every_public_function_that_computes_ends_its_refusals_at_the_caller() -> None:
    plain = {"autolog", "make_oob_scorer", "split_outputs"}  # they start or wrap what computes later
    functions = [name for name in ens_plugin.__all__ if inspect.isfunction(getattr(ens_plugin, name))]
    assert {name for name in functions if not hasattr(getattr(ens_plugin, name), "__wrapped__")} <= plain
