"""The exceptions a user can meet."""

from __future__ import annotations

import pickle

import pytest

from ens_plugin import errors


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_an_error_is_its_message_alone_and_arrives_whole_from_another_process(name: str) -> None:
    error = getattr(errors, name)("what was found")
    assert isinstance(error, errors.EnsPluginError)
    assert vars(error) == {}
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "what was found"
