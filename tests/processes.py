"""Processes that end with the test run, however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pathlib import Path

# Reads until its standard input closes, which the system does when pytest's process is gone, and then ends
# the group. `finally` and fixtures do not run when a timeout ends pytest or someone presses Ctrl-C twice.
# (dash knows no `kill --`.)
_WATCHDOG = 'read -r _; kill -TERM "-$1" && sleep 3; kill -KILL "-$1"'


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ProcessGroup:
    """A command in a process group of its own, with its output in a file."""

    def __init__(self, command: list[str], *, env: dict[str, str], cwd: Path, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Process id of the command, which is also the id of its group."""
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self, grace_s: float = 5.0) -> None:
        """End the group and what it started (kernels make groups of their own)."""
        try:
            family = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        for process in family:
            # psutil compares start times, so an id that was given to someone else is left alone.
            if process.is_running():
                process.kill()
        self._watchdog.kill()
        self._watchdog.communicate()

    def _signal(self, number: signal.Signals) -> None:
        if self.running():
            os.killpg(self.pid, number)
