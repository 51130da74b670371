"""A running kernel of each ipykernel version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.kernel import Kernel
from tests.kernels.specs import VERSIONS

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(params=VERSIONS)
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A new kernel; the test runs once for each version."""
    with Kernel(request.param) as running:
        yield running
