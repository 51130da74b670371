"""Compiled code and torch's give the same; the library is the one of its source."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nansense_widgets.stats import native
from nansense_widgets.stats.native import build
from nansense_widgets.stats.summary import Expected, summarise
from tests.stats.test_accumulate import KINDS, data

needs_library = pytest.mark.skipif(not native.is_built(), reason="no library: there is no C compiler")


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
def test_where_there_is_a_compiler_the_library_is_built() -> None:
    assert native.is_built(), "run `make setup`, or `python -m nansense_widgets.stats.native`"


@needs_library
@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shape=st.lists(st.sampled_from([1, 2, 3, 5, 17, 40]), min_size=1, max_size=4),
    axis=st.sampled_from([None, 0, 1, -1]),
    limit=st.sampled_from([1, 2, 16]),
    mean=st.sampled_from([0.0, 3.7, -1e3, 1e6]),
    asked=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_compiled_or_not_is_the_same(
    kind: str,
    shape: list[int],
    axis: int | None,
    limit: int,
    mean: float,
    asked: bool,
    seed: int,
) -> None:
    tensor = data(kind, torch.float32, tuple(shape), seed)
    expected = Expected(mean, False, None if asked else ())
    fast = summarise(tensor, axis, limit, expected)
    plain = summarise(tensor, axis, limit, expected, compiled=False)
    for a, b in zip(fast, plain, strict=True):
        assert a.zeros == b.zeros
        assert a.rows.layout == b.rows.layout
        np.testing.assert_array_equal(a.rows.flat, b.rows.flat)
        assert (a.rows.special is None) == (b.rows.special is None)
        if a.rows.special is not None and b.rows.special is not None:
            np.testing.assert_array_equal(a.rows.special, b.rows.special)
        for one, other in ((a.tiny, b.tiny), (a.alive, b.alive)):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                np.testing.assert_array_equal(one, other)
        (n, m, squares, low, high), (n2, m2, squares2, low2, high2) = a.moments, b.moments
        assert (n, low, high) == (n2, low2, high2)
        size = max(abs(low), abs(high)) if n else 0.0
        assert m == pytest.approx(m2, rel=1e-7, abs=1e-7 * size)
        assert squares == pytest.approx(squares2, rel=1e-6, abs=1e-13 * size * size * max(n, 1))


@needs_library
def test_large_rows_and_many_channels_are_the_same() -> None:
    torch.manual_seed(0)
    for shape, axis in (((8, 4, 64, 64), 1), ((4, 40, 32, 32), 1), ((64, 32, 200), 2), ((300_000,), None)):
        tensor = torch.randn(shape).relu()
        (a,) = summarise(tensor, axis, 16, Expected())
        (b,) = summarise(tensor, axis, 16, Expected(), compiled=False)
        assert a.rows.layout == b.rows.layout
        np.testing.assert_array_equal(a.rows.flat, b.rows.flat)
        assert a.moments == pytest.approx(b.moments, rel=1e-6)


@needs_library
def test_a_library_of_another_source_is_not_used() -> None:
    # In a process of its own, to which the source looks changed.
    code = (
        "from nansense_widgets.stats.native import build\n"
        "build.source_hash = lambda: 'another'\n"
        "import importlib, nansense_widgets.stats.native as native\n"
        "print(importlib.reload(native).is_built())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False"]


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(build.BuildError, match="no-such-compiler"):
        build.build()


@needs_library
def test_an_interrupt_between_counting_and_taking_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensor = torch.arange(8.0).view(4, 2)
    (before,) = summarise(tensor, 1, 16, Expected())

    def interrupting(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(native, "Layout", interrupting)  # made when the values have been counted
        with pytest.raises(KeyboardInterrupt):
            summarise(tensor, 1, 16, Expected())
    (after,) = summarise(tensor, 1, 16, Expected())
    assert before.rows.layout == after.rows.layout
    np.testing.assert_array_equal(before.rows.flat, after.rows.flat)
