"""What is packed comes back as it was, from a file that runs no code of others."""

from __future__ import annotations

import enum
import io
import random
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.history.pack import UnstorableError, pack, unpack

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), inner)
        | st.sets(st.integers() | st.text())
        | st.lists(inner).map(lambda items: deque(items, maxlen=len(items) + 1))
    ),
    max_leaves=20,
)


def through_a_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(pack(value, "value"), file)
    file.seek(0)
    return unpack(torch.load(file, weights_only=True))


@given(values)
def test_containers_of_plain_values_come_back(value: Any) -> None:
    found = through_a_file(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.uint32).reshape(2, 3),
        np.float16(1.5),
        np.zeros((0, 2)),
        np.array("text"),
        np.bool_(1),
    ],
)
def test_numpy_comes_back(array: Any) -> None:
    found = through_a_file(array)
    assert type(found) is type(array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_states_of_generators_come_back() -> None:
    for generator in (np.random.default_rng(3), np.random.Generator(np.random.MT19937(1))):
        generator.normal(size=3)
        other = np.random.Generator(type(generator.bit_generator)())
        other.bit_generator.state = through_a_file(generator.bit_generator.state)
        assert other.normal(size=5).tolist() == generator.normal(size=5).tolist()
    python = random.Random(4)
    other_python = random.Random()
    other_python.setstate(through_a_file(python.getstate()))
    assert other_python.random() == python.random()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int8])
def test_tensors_are_copies_of_what_they_were(dtype: torch.dtype) -> None:
    tensor = (torch.randn(4, 6) * 3).to(dtype).T[::2]
    before = tensor.clone()
    packed = pack(OrderedDict(a=[tensor]), "value")
    tensor.zero_()
    assert torch.equal(packed["a"][0], before)
    assert torch.equal(through_a_file({"x": before})["x"], before)
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(through_a_file(sparse).to_dense(), sparse.to_dense())


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, lambda: 0]}, "value['a'][1] is a builtins.function"),
        ({"a": Color.RED}, "value['a'] is a tests.history.test_pack.Color"),
        ({Color.RED: 1}, "value is a dict with keys that are no plain values"),
        (torch.zeros(1, device="meta"), "value is a meta tensor"),
        (np.array([object()]), "value is a numpy.ndarray"),
    ],
)
def test_what_no_file_can_hold_is_refused_by_its_place(value: Any, said: str) -> None:
    with pytest.raises(UnstorableError) as error:
        pack(value, "value")
    assert said in str(error.value)
