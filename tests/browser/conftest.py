"""One JupyterLab server and one Chromium for all browser tests; a `lab` for each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.lab import Lab, chromium_flags, new_context
from tests.browser.server import JupyterServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_HERE = Path(__file__).parent

# The cores are shared with whatever else runs; what is there in time costs no more for a longer wait.
expect.set_options(timeout=20_000)

_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.stash[_FAILED] = report.failed  # type: ignore[attr-defined]
    return report


@pytest.fixture(scope="session")
def jupyter_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    server = JupyterServer(tmp_path_factory.mktemp("jupyter"))
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def chromium_path() -> str:
    """The system's Chromium: Playwright's own is a download that closed networks refuse."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("no Chromium found: run `make setup`")
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=chromium_flags())
        yield browser
        browser.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, jupyter_server: JupyterServer, chromium: Browser) -> Iterator[Lab]:
    """JupyterLab for one test. Fails the test if a page asked another origin or logged an error."""
    context = new_context(chromium)
    lab = Lab(jupyter_server, context, re.sub(r"\W+", "-", request.node.name))
    yield lab
    failed = request.node.stash.get(_FAILED, True)
    if failed:
        for number, tab in enumerate(lab.tabs):
            if not tab.page.is_closed():
                tab.screenshot(f"FAILED-{lab.test}-{number}")
    complaints = lab.complaints()
    context.close()
    jupyter_server.shut_down_kernels()
    assert not complaints, "\n".join(complaints)
