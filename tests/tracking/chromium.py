"""MLflow's UI in a headless Chromium that is already on this machine."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

__all__ = ["CHROMIUM", "Tab", "launch", "open_tab"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
PATIENCE_MS = 30_000
ATTEMPTS = 3

# MLflow greets a new visitor with panels that cover the page.
SEEN_BEFORE = {
    "mlflow.assistant.panelOpen_v1": "false",
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true",
    "mlflow.workflowType_v1": '"machine_learning"',
}
DARK = "_mlflow_dark_mode_toggle_enabled"
# Inside a sandboxed frame there is no storage to write to.
REMEMBER = "try {{ for (const [key, value] of Object.entries({0})) localStorage.setItem(key, value) }} catch {{}}"

# What MLflow's own pages complain about, report or no report.
NOISE = re.compile(r"users/current|TelemetryLogger|ResizeObserver loop|AG Grid: since")


class Tab(NamedTuple):
    """A page, and what the browser has complained about since it was opened."""

    page: sync_api.Page
    complaints: list[str]


@contextmanager
def launch() -> Iterator[sync_api.Browser]:
    """Start the browser; no name is resolved, so that nothing outside this machine can be loaded."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_tab(browser: sync_api.Browser, url: str, ready: str, theme: str = "light", width: int = 1280) -> Iterator[Tab]:
    """Open `url` in a window of `width` x 720 and wait until the selector `ready` is visible.

    Both the system and MLflow are set to `theme`.
    """
    settings = {**SEEN_BEFORE, DARK: json.dumps(theme == "dark")}
    with browser.new_context(viewport={"width": width, "height": 720}, color_scheme=theme) as context:
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(REMEMBER.format(json.dumps(settings)))
        tab = Tab(context.new_page(), [])
        _listen(tab)
        _load(tab, url, ready)
        yield tab


def _load(tab: Tab, url: str, ready: str) -> None:
    """Load a page, again where MLflow's own placeholder stays, as it does now and then on a busy machine."""
    for _ in range(ATTEMPTS):
        tab.page.goto("about:blank")
        tab.complaints.clear()
        tab.page.goto(url)
        try:
            tab.page.locator(ready).first.wait_for()
            return
        except sync_api.TimeoutError:
            continue
    pytest.fail(f"{ready} did not appear in {ATTEMPTS} times {PATIENCE_MS} ms at {url}: {tab.complaints}")


def _listen(tab: Tab) -> None:
    def note(text: str) -> None:
        if not NOISE.search(text):
            tab.complaints.append(text)

    tab.page.on(
        "console",
        lambda line: note(f"{line.type}: {line.text} {line.location}") if line.type in ("error", "warning") else None,
    )
    tab.page.on("pageerror", lambda error: note(f"exception: {error}"))
    tab.page.on("requestfailed", lambda request: note(f"not loaded: {request.url} {request.failure}"))
