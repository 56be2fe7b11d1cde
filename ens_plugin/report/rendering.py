"""The rendering of this folder's templates; each value is escaped, unless it is markup."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, /, **values: Any) -> str:
    """Return the template of a name with its values."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("ens_plugin.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _keep_units(value: Any) -> Any:
    return value.replace(" %", "\xa0%") if type(value) is str else value
