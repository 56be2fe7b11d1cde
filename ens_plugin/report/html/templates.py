"""The templates of the page and of the cards, rendered."""

from __future__ import annotations

from typing import Any

__all__ = ["render"]


def render(name: str, **values: Any) -> str:
    """Return the template of a name with its values, each escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ens_plugin.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def _keep_units(value: Any) -> Any:
    return value.replace(" %", "\xa0%") if type(value) is str else value
