"""What a test does in JupyterLab: write a notebook, open it, run it, look at it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import nbformat

from tests.conftest import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

    from tests.browser.server import JupyterServer

SCREENSHOTS = REPO / "tests/browser/screenshots"
"""Where screenshots go (not committed)."""

WIDE = (1600, 900)
"""Width and height of a page in CSS pixels, unless a test sets another."""

# JupyterLab's own objects, through the application it exposes.
_KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
_READY = f"window.jupyterapp?.shell.currentWidget?.context?.isReady && {_KERNEL}?.status === 'idle'"


@dataclass(frozen=True)
class Allowed:
    """Console messages that a test expects. `reason` says why they are harmless."""

    pattern: re.Pattern[str]
    reason: str


ALLOWED_EVERYWHERE: tuple[Allowed, ...] = (
    Allowed(
        re.compile(
            r"^(uncaught: Error: |Could not restore the debugger state: )Canceled future for "
            r"(debug|create_subshell|delete_subshell|comm_info|kernel_info)_request message"
        ),
        "JupyterLab's panels and widget manager ask a kernel questions that a restart leaves unanswered",
    ),
)
"""What JupyterLab itself logs, whatever the notebook does. All else a test names with `allow_error`."""


class Tab:
    """One browser page that shows one notebook, and a record of all that went wrong in it."""

    def __init__(self, page: Page, url: str, origin: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        """Console errors and uncaught exceptions, in order."""
        self.outside: list[str] = []
        """Addresses asked for that are not the server's."""
        self._host = urlsplit(origin).netloc
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("request", lambda request: self._on_address(request.url))
        page.on("websocket", lambda socket: self._on_address(socket.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.errors.append(f"{message.text} ({where})" if where else message.text)

    def _on_address(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self._host:
            self.outside.append(url)

    def load(self, *, reset: bool) -> None:
        """Go to the notebook and wait until its kernel is idle. `reset` forgets the workspace's layout."""
        self.page.goto(self.url + ("?reset" if reset else ""))
        self.wait_idle()

    def wait_idle(self, timeout_s: float = 60.0) -> None:
        """Wait until the notebook is loaded and its kernel has nothing to do."""
        self.page.wait_for_function(_READY, timeout=timeout_s * 1000)

    def wait_busy(self, timeout_s: float = 30.0) -> None:
        self.page.wait_for_function(f"{_KERNEL}?.status === 'busy'", timeout=timeout_s * 1000)

    def command(self, name: str, **args: object) -> None:
        """Execute a JupyterLab command and wait until its promise resolves."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)", [name, args]
        )

    def run_all(self) -> None:
        """Run all cells; returns when the last one is done.

        Once in some thousand times JupyterLab's command never comes back, with a kernel that has nothing to
        do: its first message was lost while the kernel's connection settled. Then it is given once more.
        """
        begin = "() => { window.ran = window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
        self.page.evaluate(begin)
        done = """() => Promise.race([
            window.ran.then(() => true), new Promise((resolve) => setTimeout(() => resolve(false), 30_000)),
        ])"""
        while not self.page.evaluate(done):
            if self.page.evaluate(f"{_KERNEL}?.status === 'idle'"):
                self.page.evaluate(begin)

    def start_all(self) -> None:
        """Ask for all cells to run and return at once: for cells that stay busy."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def execute(self, code: str) -> None:
        """Run code in the notebook's kernel, outside any cell, and wait for its end. Raises if it raised."""
        reply = self.page.evaluate(
            f"""async (code) => {{
                const future = ({_KERNEL}).requestExecute({{code, store_history: false}});
                return (await future.done).content;
            }}""",
            code,
        )
        if reply["status"] != "ok":
            raise AssertionError(f"{reply.get('ename')}: {reply.get('evalue')}")

    def evaluate(self, expression: str) -> Any:
        """`repr` of a Python expression in the notebook's kernel, evaluated as a literal."""
        import ast

        reply = self.page.evaluate(
            f"""async (expression) => {{
                const future = ({_KERNEL}).requestExecute({{
                    code: '', silent: true, store_history: false, user_expressions: {{value: expression}},
                }});
                return (await future.done).content.user_expressions.value;
            }}""",
            expression,
        )
        if reply["status"] != "ok":
            raise AssertionError(f"{expression}: {reply['ename']}: {reply['evalue']}")
        return ast.literal_eval(reply["data"]["text/plain"])

    def save(self) -> None:
        self.command("docmanager:save")

    def reload(self) -> None:
        """Save, then load the page anew as the browser's button does. The kernel goes on."""
        self.save()
        self.load(reset=False)

    def restart_kernel(self) -> None:
        """Restart the kernel without asking, and wait until the new one is idle."""
        self.page.evaluate(f"() => ({_KERNEL}).restart()")
        self.wait_idle()

    def interrupt_kernel(self) -> None:
        self.page.evaluate(f"() => ({_KERNEL}).interrupt()")

    def set_theme(self, *, dark: bool) -> None:
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_selector(f"body[data-jp-theme-light='{str(not dark).lower()}']", state="attached")

    def set_viewport(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    def cell_outputs(self, index: int) -> str:
        """Text of all that cell `index` (code and Markdown cells count) shows below its source."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea").inner_text()

    def screenshot(self, name: str) -> Path:
        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path


@dataclass
class Lab:
    """JupyterLab as one test sees it. Every page that it opens is checked when the test ends."""

    server: JupyterServer
    context: BrowserContext
    test: str
    """Name of the test: its files and workspaces carry it."""
    tabs: list[Tab] = field(default_factory=list)
    allowed: list[Allowed] = field(default_factory=lambda: list(ALLOWED_EVERYWHERE))
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def write_notebook(
        self, cells: Sequence[str], *, name: str | None = None, kernel: str = "python3"
    ) -> str:
        """Write a notebook of code cells; returns its path for `open`.

        `kernel` is a kernel specification's name: `python3`, or `specs.kernel_name(version)`.
        """
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        )
        path = f"{name or self.test}-{next(self._numbers)}.ipynb"
        nbformat.write(notebook, self.server.root / path)
        return path

    def file(self, path: str) -> Path:
        """Where a notebook lies on disk, e.g. to read what was saved."""
        return self.server.root / path

    def open(self, path: str, *, viewport: tuple[int, int] = WIDE) -> Tab:
        """Open a notebook in a page and workspace of its own. A second page shares the first one's kernel."""
        page = self.context.new_page()
        page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        workspace = f"{self.test}-{next(self._numbers)}"
        url = f"{self.server.url}/lab/workspaces/{quote(workspace)}/tree/{quote(path)}"
        tab = Tab(page, url, self.server.url)
        self.tabs.append(tab)
        tab.load(reset=True)
        return tab

    def allow_error(self, pattern: str, *, reason: str) -> None:
        """Let console errors that match the regular expression `pattern` pass in this test."""
        self.allowed.append(Allowed(re.compile(pattern), reason))

    def complaints(self) -> list[str]:
        """Requests to other origins, and errors that no `allow_error` covers."""
        found = []
        for number, tab in enumerate(self.tabs):
            found += [f"page {number} asked for {url}" for url in tab.outside]
            found += [
                f"page {number} logged: {error}"
                for error in tab.errors
                if not any(allowed.pattern.search(error) for allowed in self.allowed)
            ]
        return found


def chromium_flags() -> list[str]:
    """Flags for a headless Chromium that keeps to itself, also as root."""
    return [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]


def new_context(browser: Browser) -> BrowserContext:
    context = browser.new_context(reduced_motion="reduce", device_scale_factor=1)
    context.set_default_timeout(15_000)
    return context
