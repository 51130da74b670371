"""One JupyterLab server for all browser tests: no token, no news, nothing of the user's own settings."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.conftest import REPO
from tests.kernels.specs import write_kernel_specs
from tests.processes import ProcessGroup, free_port

DEMO_SETTINGS = REPO / "notebooks/.jupyter/labconfig/default_setting_overrides.json"
"""The settings that `make demo` uses: tests start from them."""

# Tests save when they mean to. The "file changed on disk" dialog would otherwise depend on timing.
TEST_SETTINGS: dict[str, dict[str, Any]] = {"@jupyterlab/docmanager-extension:plugin": {"autosave": False}}


class JupyterServer:
    """A running server whose notebooks are the files in `root`."""

    def __init__(self, scratch: Path) -> None:
        self.root = scratch / "notebooks"
        self.root.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        self._group = ProcessGroup(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={self.url.rsplit(':', 1)[1]}",
                "--ServerApp.port_retries=0",
                f"--ServerApp.root_dir={self.root}",
                # Loopback only, for the length of a test run: the tests themselves end kernels by its API.
                "--IdentityProvider.token=",
                "--ServerApp.disable_check_xsrf=True",
                "--LabApp.expose_app_in_browser=True",
                f"--LabApp.workspaces_dir={scratch / 'workspaces'}",
                f"--LabApp.user_settings_dir={scratch / 'settings'}",
            ],
            env=self._environment(scratch),
            cwd=self.root,
            log=scratch / "server.log",
        )

    @staticmethod
    def _environment(scratch: Path) -> dict[str, str]:
        config = scratch / "config"
        (config / "labconfig").mkdir(parents=True)
        settings = json.loads(DEMO_SETTINGS.read_text()) | TEST_SETTINGS
        (config / "labconfig" / DEMO_SETTINGS.name).write_text(json.dumps(settings))
        write_kernel_specs(scratch / "data")
        return os.environ | {
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_DATA_DIR": str(scratch / "data"),
            "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "IPYTHONDIR": str(scratch / "ipython"),
            "PYTHONPATH": str(REPO),
            # Two cores are shared by the server, the browser and the kernel.
            "OMP_NUM_THREADS": "1",
        }

    def wait_until_ready(self, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not self._group.running():
                break
            try:
                with urllib.request.urlopen(f"{self.url}/api/status", timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not start; its log:\n{self.log()}")

    def shut_down_kernels(self) -> None:
        """End every kernel, so that one test's training does not slow the next."""
        with urllib.request.urlopen(f"{self.url}/api/sessions") as reply:
            sessions = json.load(reply)
        for session in sessions:
            request = urllib.request.Request(f"{self.url}/api/sessions/{session['id']}", method="DELETE")
            with urllib.request.urlopen(request):
                pass

    def log(self) -> str:
        return self._group.log.read_text(errors="replace")

    def stop(self) -> None:
        self._group.stop()
