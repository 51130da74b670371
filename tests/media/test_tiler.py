"""The tiler: every value of a tensor stands exactly once at the place that the arrangement says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.capture.roles import ParameterRole
from nansense_widgets.media.facts import tensor_facts
from nansense_widgets.media.quantise import decode
from nansense_widgets.media.tile_order import tile_order
from nansense_widgets.media.tile_picture import (
    Box,
    Region,
    Sizing,
    cut,
    encode_tiles,
    pooled,
    scale_of,
    sizing,
    taken,
)
from nansense_widgets.media.tiler import (
    Arrangement,
    TilerAxis,
    arranged,
    default_arrangement,
    source_index,
    tiler_axes,
)

shapes = st.lists(st.integers(1, 5), min_size=0, max_size=5).map(tuple)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[torch.Tensor, tuple[TilerAxis, ...], Arrangement]:
    """A tensor whose values are all different, axes of which one may be split, and any arrangement."""
    shape = draw(shapes)
    tensor = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
    if draw(st.booleans()):  # not contiguous, as a transposed weight is
        order = draw(st.permutations(range(len(shape))))
        tensor = tensor.permute(list(order))
    split = draw(st.none() | st.integers(0, len(shape) - 1)) if shape else None
    parts = draw(st.integers(2, 4)) if split is not None else 0
    role = ParameterRole(
        tuple(f"a{i}" for i in range(len(shape))), split, tuple(f"p {i}" for i in range(parts))
    )
    axes = tiler_axes(tensor.shape, role)
    uses = [draw(st.integers(-1, len(axes))) for _ in range(4)]
    index = tuple(draw(st.integers(-2, 6)) for _ in axes)
    y, x, tile, colour = (None if use < 0 else use for use in uses)
    return tensor, axes, Arrangement(y, x, tile, colour, index).checked(axes)


@given(tilings())
def test_each_value_is_at_its_place(
    tiling: tuple[torch.Tensor, tuple[TilerAxis, ...], Arrangement],
) -> None:
    tensor, axes, arrangement = tiling
    whole = arranged(tensor, axes, arrangement)
    assert whole.ndim == 4
    seen = set()
    for place in itertools.product(*map(range, whole.shape)):
        index = source_index(axes, arrangement, *place)
        assert whole[place] == tensor[index]
        seen.add(index)
    assert len(seen) == whole.numel()


@given(tilings())
def test_the_places_of_the_rest_reach_every_value_exactly_once(
    tiling: tuple[torch.Tensor, tuple[TilerAxis, ...], Arrangement],
) -> None:
    tensor, axes, arrangement = tiling
    rest = [axis for axis in range(len(axes)) if axis not in arrangement.used]
    values: list[float] = []
    for places in itertools.product(*(range(axes[axis].size) for axis in rest)):
        index = list(arrangement.index)
        for axis, place in zip(rest, places, strict=True):
            index[axis] = place
        moved = Arrangement(
            arrangement.y, arrangement.x, arrangement.tile, arrangement.colour, tuple(index)
        ).checked(axes)
        values += arranged(tensor, axes, moved).flatten().tolist()
    assert sorted(values) == sorted(tensor.flatten().tolist())


@given(tilings(), st.sampled_from(["index", "norm", "similarity"]), st.booleans())
def test_an_order_is_a_permutation_and_its_groups_begin_in_order(
    tiling: tuple[torch.Tensor, tuple[TilerAxis, ...], Arrangement], by: str, group: bool
) -> None:
    tensor, axes, arrangement = tiling
    if not tensor.numel():
        return
    order = tile_order(tensor, axes, arrangement, by, group=group)  # type: ignore[arg-type]
    if order.axis is None:
        assert arrangement.tile is None
        assert arrangement.y is None
        return
    size = axes[order.axis].size
    if order.order is not None:
        assert sorted(order.order) == list(range(size))
    starts = [start for start, _ in order.groups]
    assert starts == sorted(set(starts))
    assert not starts or (starts[0] == 0 and starts[-1] < size)
    if by == "norm" and order.order is not None:
        place = 0 if order.axis == arrangement.tile else 2
        whole = arranged(
            tensor, axes, Arrangement(None, None, order.axis, None, tuple(0 for _ in axes)).checked(axes)
        )
        assert place in (0, 2)
        assert whole.shape[0] == size


def test_an_axis_has_one_use() -> None:
    axes = tiler_axes((3, 4, 5), ParameterRole())
    assert Arrangement(1, 1, 1, 1, (9, -3)).checked(axes) == Arrangement(1, None, None, None, (2, 0, 0))
    assert Arrangement(7, -1, 0, 0, ()).checked(axes) == Arrangement(None, None, 0, None, (0, 0, 0))
    assert Arrangement(1, 2, None, 0, ()).checked(axes).colour == 0
    assert Arrangement(0, 2, None, 1, ()).checked(axes).colour is None  # of size 4


@pytest.mark.parametrize(
    ("shape", "role", "expected"),
    [
        ((16, 3, 7, 7), ParameterRole(("out", "in", "row", "column")), (2, 3, 0, 1)),
        ((16, 8, 3, 3), ParameterRole(("out", "in", "row", "column")), (2, 3, 0, None)),
        ((16, 8, 1, 1), ParameterRole(("out", "in", "row", "column")), (0, 1, None, None)),
        ((8, 1, 3, 3), ParameterRole(("out", "in", "row", "column")), (2, 3, 0, None)),
        ((8, 16, 3, 3), ParameterRole(("in", "out", "row", "column")), (2, 3, 1, None)),
        ((16, 8, 5), ParameterRole(("out", "in", "column")), (1, 2, 0, None)),
        ((16, 1, 5), ParameterRole(("out", "in", "column")), (None, 2, 0, None)),
        ((16, 8, 3, 3, 3), ParameterRole(("out", "in", "depth", "row", "column")), (3, 4, 0, None)),
        ((10, 20), ParameterRole(("out", "in")), (0, 1, None, None)),
        ((20, 10), ParameterRole(("in", "out")), (1, 0, None, None)),
        ((20, 12), ParameterRole(("in", "out"), 1, ("q head 0", "k head 0")), (2, 0, 1, None)),
        ((300, 20), ParameterRole(("token", "feature")), (0, 1, None, None)),
        ((1, 1, 20), ParameterRole(), (None, 2, None, None)),
        ((1, 50, 20), ParameterRole(), (1, 2, None, None)),
        ((4, 50, 20), ParameterRole(), (1, 2, 0, None)),
        ((7,), ParameterRole(), (None, 0, None, None)),
        ((), ParameterRole(), (None, None, None, None)),
        ((1,), ParameterRole(), (None, 0, None, None)),
        ((80, 24), ParameterRole(("unit", "in"), 0, ("i", "f", "g", "o")), (1, 2, 0, None)),
        ((24, 24), ParameterRole(("out", "in"), 1, ("head 0", "head 1")), (0, 2, 1, None)),
        ((72,), ParameterRole(("out",), 0, ("q head 0", "k head 0", "v head 0")), (None, 1, 0, None)),
    ],
)
def test_defaults_suit_the_layer(
    shape: tuple[int, ...], role: ParameterRole, expected: tuple[int | None, ...]
) -> None:
    axes = tiler_axes(shape, role)
    found = default_arrangement(axes)
    assert (found.y, found.x, found.tile, found.colour) == expected
    assert found.checked(axes) == found


def test_parts_that_do_not_fit_are_no_axis() -> None:
    role = ParameterRole(("out", "in"), 0, ("i", "f", "g", "o"))
    assert [axis.size for axis in tiler_axes((80, 24), role)] == [4, 20, 24]
    assert [axis.size for axis in tiler_axes((80, 24), role, split=False)] == [80, 24]
    assert [axis.size for axis in tiler_axes((81, 24), role)] == [81, 24]
    assert [axis.name for axis in tiler_axes((80,), role)] == ["axis 0"]


# ------------------------------------------------------------------ order


def orders(rows: torch.Tensor, by: str, *, group: bool = False) -> tuple[tuple[int, ...], list[str]]:
    axes = tiler_axes(rows.shape, ParameterRole())
    found = tile_order(rows, axes, default_arrangement(axes), by, group=group)  # type: ignore[arg-type]
    assert found.order is not None
    return found.order, [name for _, name in found.groups]


def test_by_norm_the_largest_comes_first_and_what_is_not_finite_before_it() -> None:
    rows = torch.tensor([[1.0, 0], [0, 3], [0, 0], [float("nan"), 0], [0, -2]])
    order, groups = orders(rows, "norm", group=True)
    assert order == (3, 1, 4, 0, 2)
    assert groups == ["not finite", "norm 1.5 to 3", "norm 0.75 to 1.5", "zero"]


def test_by_similarity_each_stands_beside_the_one_most_like_it() -> None:
    rows = torch.tensor([[9.0, 0, 0], [0, 1, 0.1], [8, 1, 0], [0, 0, 0], [0, 1, 0.2], [0, 0, -1]])
    order, groups = orders(rows, "similarity", group=True)
    assert order[:2] == (0, 2)  # from the largest norm
    assert abs(order.index(1) - order.index(4)) == 1
    assert order[-1] == 3  # zero
    assert groups[:2] == ["2 alike", "2 alike"]


def test_similarity_of_very_many_is_left_out_and_says_so() -> None:
    rows = torch.randn(2000, 3)
    axes = tiler_axes(rows.shape, ParameterRole())
    found = tile_order(rows, axes, default_arrangement(axes), "similarity", group=False)
    assert found.order is None
    assert found.note == "by index: similarity is worked out for up to 1,024 of them, and there are 2,000"


# ------------------------------------------------------------------ pictures


@given(st.integers(1, 3), st.integers(1, 2), st.integers(2, 30), st.integers(1, 30), st.integers(1, 12))
def test_a_pooled_pixel_is_the_mean_of_its_block(
    tiles: int, colours: int, rows: int, columns: int, pool: int
) -> None:
    values = torch.randn(tiles, colours, rows, columns, generator=torch.Generator().manual_seed(rows))
    picture = pooled(values, pool, 6.0)
    assert picture.shape == (tiles, colours, -(-rows // pool), -(-columns // pool))
    for row, column in itertools.product(range(picture.shape[2]), range(picture.shape[3])):
        block = values[:, :, row * pool : (row + 1) * pool, column * pool : (column + 1) * pool]
        np.testing.assert_allclose(picture[:, :, row, column], block.double().mean((2, 3)).numpy(), atol=1e-5)


def test_what_is_not_finite_stays_visible_in_a_pooled_picture() -> None:
    values = torch.zeros(1, 1, 8, 8)
    values[0, 0, 1, 1], values[0, 0, 1, 6], values[0, 0, 6, 1] = float("nan"), float("inf"), -float("inf")
    picture = pooled(values, 4, 0.0)[0, 0]
    assert math.isnan(picture[0, 0])
    assert (picture[0, 1], picture[1, 0], picture[1, 1]) == (float("inf"), -float("inf"), 0)


def test_means_of_the_largest_numbers_do_not_overflow() -> None:
    values = torch.full((1, 1, 4, 4), torch.finfo(torch.float32).max)
    assert np.isfinite(pooled(values, 4, 3e38)).all()
    values[0, 0, 0, 0] = float("inf")
    picture = pooled(values, 2, 3e38)[0, 0]
    assert picture[0, 0] == float("inf")
    assert np.isfinite(picture.ravel()[1:]).all()


def test_a_pooled_row_keeps_its_peaks() -> None:
    row = torch.tensor([0.0, 5, 0, 0, -3, 0, 1]).view(1, 1, 1, 7)
    assert pooled(row, 3, 5.0)[0, 0].tolist() == [[0, -3, 1], [5, 0, 1]]


def test_the_scale_of_means_is_that_of_whole_blocks() -> None:
    values = torch.zeros(1, 1, 5, 5)
    values[0, 0, 4, 4], values[0, 0, 0, 0] = 100, 4
    picture = pooled(values, 2, 100.0)
    assert scale_of(picture, (5, 5), 2) == 1
    assert scale_of(pooled(values, 8, 100.0), (5, 5), 8) == pytest.approx(104 / 25)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 5),
    st.lists(st.integers(-5, 60), min_size=6, max_size=6),
)
def test_a_region_is_within_the_picture_and_on_whole_blocks(
    rows: int, columns: int, pool: int, asked: list[int]
) -> None:
    region = cut(Region(*asked), 7, (rows, columns), pool)
    assert 0 <= region.first < 7
    assert 1 <= region.count <= 7 - region.first
    for start, stop, size in ((region.top, region.bottom, rows), (region.left, region.right, columns)):
        assert 0 <= start < stop <= size
        assert start % pool == 0
        assert stop % pool == 0 or stop == size


@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.integers(1, 600),
    st.integers(200, 1600),
    st.integers(-3, 6),
)
def test_a_size_is_either_pooled_or_magnified(
    rows: int, columns: int, tiles: int, width: int, zoom: int
) -> None:
    size = sizing((rows, columns), tiles, Box(width, 280), zoom)
    assert size.pool >= 1
    assert 1 <= size.magnify <= 32
    assert 1 in (size.pool, size.magnify)


def test_what_fits_is_shown_whole_and_zooms_by_two() -> None:
    box = Box(300, 280)
    assert sizing((4096, 4096), 1, box, 0) == Sizing(16, 1)  # 4096 is 256 blocks of 16
    assert [sizing((4096, 4096), 1, box, zoom) for zoom in (1, 4, 5, -1)] == [
        Sizing(8, 1),
        Sizing(1, 1),
        Sizing(1, 2),
        Sizing(32, 1),
    ]
    small = sizing((3, 3), 16, box, 0)
    assert small.pool == 1
    assert 28 <= 3 * small.magnify <= 72


def test_codes_of_a_colour_picture_stand_together() -> None:
    values = np.arange(2 * 3 * 2 * 2, dtype=np.float32).reshape(2, 3, 2, 2)
    codes = np.frombuffer(encode_tiles(values, 23.0), np.uint8).reshape(2, 2, 2, 3)
    np.testing.assert_allclose(decode(codes, 23.0), values.transpose(0, 2, 3, 1), atol=23 / 252 * 1.01)


def test_places_are_taken_in_order() -> None:
    tiles = torch.arange(12.0).reshape(4, 1, 1, 3)
    assert taken(tiles, (2, 0, 3, 1), 0, 1, 2)[:, 0, 0, 0].tolist() == [0, 9]
    assert taken(tiles, None, 0, 1, 2)[:, 0, 0, 0].tolist() == [3, 6]


# ------------------------------------------------------------------ facts


@pytest.fixture(params=[True, False], ids=["in C", "in torch"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts are measured in compiled code, or without it."""
    if not request.param:
        monkeypatch.setattr("nansense_widgets.media.facts.native.is_built", lambda: False)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16", "int64", "bool", "complex64"])
def test_facts_of_every_dtype(name: str) -> None:
    dtype: torch.dtype = getattr(torch, name)
    torch.manual_seed(0)
    tensor = (torch.randn(40, 50) * 3).to(dtype)
    facts = tensor_facts(tensor)
    plain = tensor.abs().double() if dtype.is_complex else tensor.double()
    assert facts.norm == pytest.approx(float(plain.norm()), rel=1e-5)
    assert facts.zeros == int((plain == 0).sum())
    assert facts.scale == pytest.approx(float(plain.abs().max()))
    assert facts.low == pytest.approx(float(plain.min()))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_norms_neither_over_nor_underflow(size: float) -> None:
    assert tensor_facts(torch.full((100,), size)).norm == pytest.approx(10 * size, rel=1e-5)


@pytest.mark.usefixtures("either_way")
def test_facts_are_over_finite_values() -> None:
    nan, inf = float("nan"), float("inf")
    facts = tensor_facts(torch.tensor([3.0, nan, inf, -inf, -4, 0]))
    assert (facts.norm, facts.scale, facts.low, facts.zeros) == (5, 4, -4, 1)
    assert (facts.nonfinite.nan, facts.nonfinite.posinf, facts.nonfinite.neginf) == (1, 1, 1)
    assert tensor_facts(torch.tensor([nan])).scale == 0
