"""Pages, and the rendering of this folder's templates: each value is escaped, unless it is markup."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ens_plugin.errors import InputError
from ens_plugin.files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment


class Page(ABC):
    """A result that has a page of its own."""

    @abstractmethod
    def _page(self) -> str:
        """Return the text of the page."""

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> Path: ...

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Return the result as one self-contained HTML page, or write the page to a file, completely or not at all.

        Parameters
        ----------
        path : str or Path, optional
            File to write; an existing one is replaced.

        Returns
        -------
        str or Path
            The text of the page without a `path`, else the path of the file.

        Raises
        ------
        InputError
            If the directory of `path` does not exist, `path` is a directory, or the file cannot be written.

        Examples
        --------
        >>> import ens_plugin
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
        >>> report.to_html()[:15]
        '<!DOCTYPE html>'
        """
        if path is None:
            return self._page()
        try:
            target = Path(path)
        except TypeError as error:
            raise InputError(
                f"path is of type {type(path).__name__}; pass the name of a file, such as 'report.html'."
            ) from error
        if not os.path.isdir(target.parent):
            raise InputError(
                f"path={str(target)!r}: the directory {str(target.parent)!r} does not exist; create it first."
            )
        if os.path.isdir(target):
            raise InputError(f"path={str(target)!r} is a directory; add a file name such as report.html.")
        try:
            write_whole(target, self._page().encode())
        except (OSError, ValueError) as error:
            raise InputError(f"path={str(target)!r} cannot be written ({error}); choose another path.") from error
        return target


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
