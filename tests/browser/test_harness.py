"""The harness itself, tried on a counter: clicks, reload, second tab, restart, and what it must catch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.conftest import REPO
from tests.kernels.specs import VERSIONS, kernel_name

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default {
      render({ model, el }) {
        const button = document.createElement("button");
        button.className = "counter";
        const draw = () => { button.textContent = `count ${model.get("count")}`; };
        button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
        model.on("change:count", draw);
        draw();
        el.append(button);
      }
    };
    """
    count = traitlets.Int(0).tag(sync=True)

seen = []
counter = Counter()
counter.observe(lambda change: seen.append(change.new), "count")
counter
'''


def test_click_reaches_python_and_back(lab: Lab) -> None:
    tab = lab.open(lab.write_notebook([COUNTER, "print('second', 'cell')"]))
    tab.run_all()
    button = tab.page.locator("button.counter")
    expect(button).to_have_text("count 0")
    button.click()
    expect(button).to_have_text("count 1")
    assert tab.evaluate("seen") == [1]
    tab.execute("counter.count = 41")
    expect(button).to_have_text("count 41")
    assert tab.cell_outputs(1).strip() == "second cell"


def test_reload_second_tab_and_save(lab: Lab) -> None:
    path = lab.write_notebook([COUNTER])
    tab = lab.open(path)
    tab.run_all()
    tab.page.locator("button.counter").click()
    tab.reload()
    button = tab.page.locator("button.counter")
    expect(button).to_have_text("count 1")

    other = lab.open(path)
    other_button = other.page.locator("button.counter")
    expect(other_button).to_have_text("count 1")
    other_button.click()
    expect(button).to_have_text("count 2")

    tab.save()
    saved = json.loads(lab.file(path).read_text())
    states = saved["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert [state["state"]["count"] for state in states if "count" in state["state"]] == [2]


def test_kernel_restart(lab: Lab) -> None:
    tab = lab.open(lab.write_notebook([COUNTER]))
    tab.run_all()
    tab.restart_kernel()
    assert tab.evaluate("'counter' in globals()") is False
    tab.run_all()
    expect(tab.page.locator("button.counter")).to_have_text("count 0")


def test_themes_and_sizes(lab: Lab) -> None:
    tab = lab.open(lab.write_notebook(["1 + 1"]), viewport=(320, 700))
    width = "document.documentElement.clientWidth"
    assert tab.page.evaluate(width) == 320
    tab.set_viewport(1000, 700)
    assert tab.page.evaluate(width) == 1000
    background = "getComputedStyle(document.body).getPropertyValue('--jp-layout-color0').trim()"
    tab.set_theme(dark=True)
    dark = tab.page.evaluate(background)
    assert tab.screenshot("harness-dark").stat().st_size > 5_000
    tab.set_theme(dark=False)
    assert tab.page.evaluate(background) != dark


@pytest.mark.parametrize("version", VERSIONS)
def test_other_kernel_versions(lab: Lab, version: str) -> None:
    tab = lab.open(lab.write_notebook([COUNTER], kernel=kernel_name(version)))
    tab.run_all()
    assert tab.evaluate("__import__('ipykernel').__version__") == version
    tab.page.locator("button.counter").click()
    expect(tab.page.locator("button.counter")).to_have_text("count 1")


def test_errors_and_outside_requests_are_caught(lab: Lab) -> None:
    tab = lab.open(lab.write_notebook([]))
    before = lab.complaints()
    tab.page.evaluate("console.error('expected trouble')")
    tab.page.evaluate("setTimeout(() => { throw new Error('thrown later'); })")
    # Port 9 of loopback: another origin, on this machine, where nobody listens.
    tab.page.evaluate("fetch('http://127.0.0.1:9/beacon').catch(() => null)")
    tab.page.wait_for_timeout(200)
    found = "\n".join(lab.complaints())
    assert before == []
    assert "expected trouble" in found
    assert "thrown later" in found
    assert "asked for http://127.0.0.1:9/beacon" in found
    lab.allow_error("expected trouble|thrown later|net::ERR", reason="this test makes them")
    assert len(lab.complaints()) == 1
    tab.outside.clear()


def test_server_ends_when_pytest_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run that is killed leaves no server behind."""
    scratch = tmp_path_factory.mktemp("killed")
    program = (
        "import pathlib, sys, time\n"
        "from tests.browser.server import JupyterServer\n"
        f"server = JupyterServer(pathlib.Path({str(scratch)!r}))\n"
        "server.wait_until_ready()\n"
        "print(server._group.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    end = time.monotonic() + 15
    while psutil.pid_exists(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not psutil.pid_exists(pid)
