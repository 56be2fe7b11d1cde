"""Classes that hold what an analysis passes from one step to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Return its argument; what it means to type checkers is in `typing` from Python 3.11 on."""
        return lambda decorator: decorator


__all__ = ["record"]

Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[Record]) -> type[Record]:
    """Make a dataclass whose attributes the type checker does not let be assigned to, without comparison and repr.

    It is made in about half of the time of one that is frozen when it runs, and an analysis loads dozens of them.
    Results that users hold are frozen dataclasses.
    """
    return dataclass(eq=False, repr=False)(cls)
