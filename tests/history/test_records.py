"""Records come back as they were, tensors bit for bit, and what is shared stays shared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.history.arena import LARGE
from nansense_widgets.history.records import pack_records, unpack_records
from nansense_widgets.stats.rows import RowCounts
from tests.history.programs import differences


@dataclass(frozen=True)
class Leaf:
    name: str
    value: Any = None


@dataclass(frozen=True, eq=False)
class Tree:
    leaves: tuple[Any, ...] = ()
    named: dict[Any, Any] = field(default_factory=dict)


SPECIAL: Any = {RowCounts: (RowCounts.parts, RowCounts.of)}


def there_and_back(value: Tree) -> Tree:
    packed = pack_records(value, (Leaf, Tree), SPECIAL, (Leaf,))
    return unpack_records(packed, Tree, (Leaf, Tree), SPECIAL)


TENSORS = {
    "scalar": torch.tensor(3.5),
    "empty": torch.zeros(0, 4),
    "one, strided": torch.arange(6)[::2][1:2],
    "turned": torch.arange(6.0).reshape(2, 3).T,
    "expanded": torch.zeros(1).expand(5, 2),
    "bool": torch.tensor([True, False]),
    "half": torch.tensor([1.0, float("nan"), float("-inf")]).half(),
    "bfloat16": torch.tensor([[1.5]]).bfloat16(),
    "complex, conjugated": torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
    "large": torch.randn(LARGE // 4 + 1),
    "needs gradient": torch.ones(2, requires_grad=True),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str) -> None:
    before = TENSORS[name]
    (after,) = there_and_back(Tree((before,))).leaves
    assert differences(before.detach().resolve_conj(), after) == []
    assert not after.requires_grad


def test_sparse_tensors() -> None:
    (after,) = there_and_back(Tree((torch.eye(3).to_sparse(),))).leaves
    assert torch.equal(after.to_dense(), torch.eye(3))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_plain_values(value: Any) -> None:
    after = there_and_back(Tree((Leaf("a", value),), {("a", 1): value}))
    assert differences((Leaf("a", value),), after.leaves) == []
    assert differences({("a", 1): value}, after.named) == []


def test_what_is_shared_stays_shared() -> None:
    tensor, leaf = torch.ones(3), Leaf("one")
    after = there_and_back(Tree((leaf, leaf, Leaf("one"), tensor), {1: tensor, "x": np.arange(3)}))
    assert after.leaves[0] is after.leaves[1]
    assert after.leaves[0] is not after.leaves[2]
    assert after.leaves[3] is after.named[1]
    assert np.array_equal(after.named["x"], np.arange(3))


def test_numbers_of_numpy_and_dtypes() -> None:
    after = there_and_back(Tree((np.float64(0.1), torch.float16, frozenset({3}), torch.Size((1, 2)))))
    assert after.leaves == (0.1, torch.float16, frozenset({3}), (1, 2))
    assert math.isnan(there_and_back(Tree((math.nan,))).leaves[0])


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a builtins\.object cannot be stored"):
        there_and_back(Tree((object(),)))
    packed = pack_records(Tree(), (Tree,), {}, ())
    with pytest.raises(TypeError, match="it holds a Tree, not a Leaf"):
        unpack_records(packed, Leaf, (Tree,), {})
    with pytest.raises(KeyError):
        unpack_records(packed, Leaf, (Leaf,), {})
