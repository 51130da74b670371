"""What a loader gives comes back with the same values under the same names."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from nansense_widgets.history.item import pack_item, unpack_item
from nansense_widgets.history.pack import UnstorableError
from tests.history.programs import differences


class Pair(NamedTuple):
    image: torch.Tensor
    label: Any


@dataclass
class Batch:
    ids: torch.Tensor
    pair: Pair


def there_and_back(item: Any) -> Any:
    return unpack_item(pack_item(item), torch.device("cpu"))


def test_plain_containers() -> None:
    item = {"x": (torch.ones(2), [torch.zeros(1, dtype=torch.int8), "name", None]), 3: np.arange(4.0)}
    assert differences(item, there_and_back(item)) == []
    assert differences({"a": 1}, there_and_back(OrderedDict(a=1))) == []


def test_named_fields_stay_named() -> None:
    found = there_and_back([Batch(torch.ones(3), Pair(torch.zeros(2), 7))])[0]
    assert torch.equal(found.ids, torch.ones(3))
    image, label = found.pair
    assert torch.equal(image, torch.zeros(2))
    assert label == found.pair.label == 7


def test_it_is_a_copy() -> None:
    x = torch.ones(2)
    packed = pack_item((x,))
    x.zero_()
    first = unpack_item(packed, torch.device("cpu"))[0]
    first.zero_()
    assert torch.equal(unpack_item(packed, torch.device("cpu"))[0], torch.ones(2))


def test_what_cannot_be_stored_is_named() -> None:
    with pytest.raises(UnstorableError, match=r"the loader's item\[1\] is a builtins\.object"):
        pack_item((1, object()))


def test_what_wants_a_gradient_wants_one_again() -> None:
    found = there_and_back([torch.ones(2, requires_grad=True), torch.ones(2)])
    assert [tensor.requires_grad for tensor in found] == [True, False]
    assert found[0].is_leaf
