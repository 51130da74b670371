"""`python -m nansense_widgets.stats.native` builds the library."""

from __future__ import annotations

import sys

from nansense_widgets.stats.native.build import BuildError, build


def main() -> int:
    """Build it; 1 if that failed."""
    try:
        print(f"built {build()}")  # noqa: T201  a command's answer
    except BuildError as error:
        print(f"not built, and not needed: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
