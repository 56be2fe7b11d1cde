"""Locks that a forked child may take, whichever thread held them in its parent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["renew_in_child"]


def renew_in_child(namespace: dict[str, Any], name: str, make: Callable[[], object]) -> None:
    """Make a module's lock, or what its threads share, anew in every forked child: they do not exist there."""

    def renew() -> None:
        namespace[name] = make()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
