"""The compiled part, which is built where there is a C compiler, and the one door to it.

Callers ask :func:`is_used` first, and import from its files only then.  Results are the same, to the bit, without it.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from ens_plugin.errors import EnsPluginWarning, warn_user

__all__ = ["is_used"]

_COMPILED = "ens_plugin._kernel.native"


def is_used() -> bool:
    """Return whether the compiled part can be used: it is there, and ``ENS_PLUGIN_PURE`` in the environment is empty.

    Issues a warning, once, where it is there and cannot be imported.
    """
    return not os.environ.get("ENS_PLUGIN_PURE") and _is_importable()


@cache
def _is_importable() -> bool:
    if find_spec(_COMPILED) is None:
        return False
    try:
        import_module(_COMPILED)
    except ImportError as error:
        warn_user(
            f"The compiled part of ens-plugin cannot be imported ({error}), so it is not used, which takes longer and "
            "changes no figure. Install it again: pip install --force-reinstall --no-deps --no-cache-dir ens-plugin.",
            EnsPluginWarning,
        )
        return False
    return True
