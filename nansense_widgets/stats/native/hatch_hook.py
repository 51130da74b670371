"""Builds the library while the package is being installed; hatchling runs this."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

__all__ = ["NativeHook"]


class NativeHook(BuildHookInterface[Any]):
    """A wheel with the library is for one platform and every Python 3; one without it is for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, or go on without."""
        beside = pathlib.Path(__file__).with_name("build.py")
        spec = importlib.util.spec_from_file_location("nansense_native_build", beside)
        if spec is None or spec.loader is None:
            raise ImportError(f"{beside} cannot be loaded")
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        try:
            library = builder.build()
        except builder.BuildError as error:
            self.app.display_warning(f"statistics will run without compiled code: {error}")
            return
        if version != "editable":
            build_data["artifacts"].append(str(library.relative_to(self.root)))
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(sys_tags()).platform}"
