"""The settings of the documentation site: ``make docs`` builds it into docs/_build/html."""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
SEARCHED = ("class_weight", "auc", "notebook", "rmse")
# The project and the example adapters are imported from this checkout, whatever else is installed.
sys.path[:0] = [str(HERE.parent), str(HERE)]

project = "ens_plugin"
author = "the ens_plugin developers"
copyright = f"{author}; licensed under Apache-2.0"
release = installed_version("ens-plugin")
version = release.partition("+")[0]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = [
    "_build",
    "reference/generated/findings.md",
    "**/GALLERY_HEADER.rst",
    "tutorials/*.py",
    "gallery/**/*.py",
]
templates_path = ["_templates"]
nitpicky = False

# Pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Quotation marks are made typographic; the two hyphens of an option stay as they are, to be copied.
smartquotes_action = "qe"
# benchmarks/RESULTS.md is written by scripts, with headings of its own.
suppress_warnings = ["myst.header"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Reference
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Tutorials and gallery: scripts that the build runs
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"\.py$",
    "parallel": True,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "plot_gallery": "True",
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib\.",
    "matplotlib_animations": False,
    "write_computation_times": False,
    "default_thumb_file": str(HERE / "images" / "mlflow_curves.png"),
}

# Appearance
# Blocks without a language are what programs print; examples in docstrings are recognised by their prompts.
highlight_language = "text"
html_theme = "pydata_sphinx_theme"
html_title = "ens_plugin"
html_static_path = ["_static"]
html_favicon = "_static/logo-light.svg"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "text": "ens_plugin",
        "image_light": "_static/logo-light.svg",
        "image_dark": "_static/logo-dark.svg",
        "alt_text": "",
    },
    "navbar_start": ["navbar-logo", "site-version"],
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright", "site-version"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
# These pages have no others beside them.
html_sidebars = {"index": [], "faq": [], "glossary": []}
# Of a method, the list of a page's contents shows the name alone: with its class's it is cut off.
toc_object_entries_show_parents = "hide"

_PAGE = re.compile(r"``docs/([\w/-]+)\.md``")
_TYPE = re.compile(r"^\s*\*\*[^*]+\*\* : ")


def _link_pages(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make a link of each path of a page that a docstring names, so that the build finds a wrong one."""
    lines[:] = [_PAGE.sub(r":doc:`/\1`", line) for line in lines]


def _keep_quotes(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep the quotation marks of types as they are, to be copied: data : {"oob", "holdout"}."""
    lines[:] = [line.replace('"', r"\"") if _TYPE.match(line) else line for line in lines]


def _show_example(app: Any, ctx: Any, lines: list[str]) -> None:
    """Show the example of a command as code, whose options and line ends can be copied."""
    if ctx.command.epilog:
        _, *commands = inspect.cleandoc(ctx.command.epilog.replace("\b\n", "")).splitlines()
        lines[:] = ["Example:", "", ".. code-block:: sh", "", *(f"  {line}" for line in commands), ""]


def _write_schema(app: Any) -> None:
    """Write the JSON schema of a report, which a page of the reference shows."""
    from report_schema import report_schema

    path = HERE / "reference" / "generated" / "report.schema.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report_schema(), indent=1) + "\n", encoding="utf-8")


def _write_findings(app: Any) -> None:
    """Write the table of all checks, which a page of the reference shows."""
    from ens_plugin.findings import CHECKS

    rows = [
        f"| `{check.code}` | {check.kind} | {check.finds} | {check.reads} | {check.rows} | {check.remedy} |"
        for check in CHECKS.values()
    ]
    table = ["| code | kind | found | read | rows | what to do |", "|---|---|---|---|---|---|", *rows, ""]
    path = HERE / "reference" / "generated" / "findings.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(table), encoding="utf-8")


def _write_llms(app: Any, error: Exception | None) -> None:
    """Write the index of the pages for language models, with the addresses of the site."""
    if error is None and app.builder.name == "html":
        text = (HERE / "llms.txt").read_text(encoding="utf-8")
        (Path(app.outdir) / "llms.txt").write_text(text.replace(".md)", ".html)"), encoding="utf-8")


def _check_search(app: Any, error: Exception | None) -> None:
    """Fail if the search of the site does not find what newcomers look for."""
    if error is not None or app.builder.name != "html":
        return
    script = (Path(app.outdir) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("Search.setIndex(").removesuffix(")"))
    missing = [word for word in SEARCHED if word not in index["terms"]]
    if missing:
        raise ExtensionError(f"The search of the site does not find {', '.join(missing)}.")


def _check_options(app: Any, error: Exception | None) -> None:
    """Fail if an option of the command line is written with a dash, which the command line does not understand."""
    if error is not None or app.builder.name != "html":
        return
    page = (Path(app.outdir) / "reference" / "cli.html").read_text(encoding="utf-8")
    dashed = re.findall(r"[\u2013\u2014][a-z][\w-]*", page)
    if dashed or "--target" not in page:
        raise ExtensionError(
            f"The page of the command line has dashes where options have hyphens: {', '.join(dashed)}."
        )


def setup(app: Any) -> None:
    """Register what docstrings go through, and what is written before pages are read."""
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("autodoc-process-docstring", _keep_quotes)
    app.connect("builder-inited", _write_schema)
    app.connect("builder-inited", _write_findings)
    app.connect("sphinx-click-process-epilog", _show_example)
    app.connect("build-finished", _write_llms)
    app.connect("build-finished", _check_search)
    app.connect("build-finished", _check_options)
