"""The reach of torch's modules and functions, read from their settings and arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from nansense_widgets.capture.reach import (
    Adaptive,
    Along,
    Causal,
    Drop,
    Everything,
    Index,
    Permute,
    Pixels,
    Pointwise,
    Reach,
    Reduce,
    Reshape,
    Resize,
    Shift,
    Window,
)

__all__ = ["reach_of_module", "reach_of_op"]

NORMALISED = Pointwise("without normalisation statistics")


def reach_of_module(module: nn.Module) -> Reach | None:
    """How a module of `torch.nn` looks back at its input; None where it is not known.

    Batch normalisation counts as pointwise, as it is in `eval`; the other normalisations say that their
    statistics are left out.
    """
    for kinds, reach in _MODULES:
        if isinstance(module, kinds):
            return reach(module)
    # Whoever derives from an activation may have a forward of their own.
    return Pointwise() if type(module) in _POINTWISE_MODULES else None


def reach_of_op(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reach | None:
    """How one call of a torch function looks back at its tensors; None where it is not known."""
    if name in _POINTWISE or name.rstrip("_") in _POINTWISE:
        return Pointwise()
    for pattern, reach in _OPS:
        if (found := re.fullmatch(pattern, name)) is not None:
            try:
                return reach(found, args, kwargs)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError):
                return None  # called in a way that is not known here
    return None


# ---------------------------------------------------------------- modules


def _convolution(m: Any) -> Reach:
    size = len(m.kernel_size)
    padding = _padding(m.padding, m.kernel_size, m.dilation, size)
    spans = zip(padding, m.kernel_size, m.dilation, strict=True)
    # What mirrors less than half the window mirrors what the window sees anyway.
    beyond = m.padding_mode == "reflect" and any(p > d * (k - 1) // 2 for p, k, d in spans)
    note = f"{m.padding_mode} padding" if m.padding_mode == "circular" or beyond else ""
    return Window(m.kernel_size, m.stride, padding, m.dilation, transposed=m.transposed, note=note)


def _pooling(m: Any) -> Reach:
    return _pool(_spatial(m), m.kernel_size, m.stride, getattr(m, "padding", 0), getattr(m, "dilation", 1))


def _spatial(m: nn.Module) -> int:
    """1, 2 or 3, from the name of torch's own class."""
    own = next(cls.__name__ for cls in type(m).__mro__ if cls.__module__.startswith("torch.nn"))
    return int(re.findall(r"[123]", own)[0])


def _layer_norm(m: Any) -> Reach:
    return Along((-1,)) if len(tuple(m.normalized_shape)) == 1 else NORMALISED


def _padded(m: Any) -> Reach:
    by = (m.padding,) if isinstance(m.padding, int) else tuple(m.padding)
    found = re.match("(Circular)|(Reflect)ion", type(m).__name__)
    return _shift(by, (found[1] or found[2]).lower() if found else "")


def _recurrent(m: Any) -> Reach:
    if m.bidirectional:
        return Everything(keeps=0 if m.batch_first else 1)
    return Causal(-2 if m.batch_first else 0)


_LAYER_NORMS = (nn.LayerNorm, *((nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()))

_MODULES: list[tuple[Any, Callable[[Any], Reach]]] = [
    (nn.modules.conv._ConvNd, _convolution),
    ((nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd, nn.modules.pooling._LPPoolNd), _pooling),
    (
        (nn.modules.pooling._AdaptiveAvgPoolNd, nn.modules.pooling._AdaptiveMaxPoolNd),
        lambda m: Adaptive(_spatial(m)),
    ),
    (nn.modules.batchnorm._BatchNorm, lambda _: Pointwise()),
    ((nn.GroupNorm, nn.modules.instancenorm._InstanceNorm), lambda _: NORMALISED),
    (_LAYER_NORMS, _layer_norm),
    ((nn.Linear, nn.Bilinear), lambda _: Along((-1,))),
    ((nn.Softmax, nn.LogSoftmax, nn.Softmin), lambda m: Everything() if m.dim is None else Along((m.dim,))),
    (nn.Embedding, lambda _: Drop(-1)),
    ((nn.Flatten, nn.Unflatten), lambda _: Reshape()),
    (nn.Upsample, lambda m: Resize(m.mode, bool(m.align_corners))),
    (nn.PixelShuffle, lambda m: Pixels(m.upscale_factor, up=True)),
    (nn.PixelUnshuffle, lambda m: Pixels(m.downscale_factor, up=False)),
    (nn.ChannelShuffle, lambda _: Along((1,))),
    (nn.modules.padding._ConstantPadNd, _padded),
    ((nn.modules.padding._ReplicationPadNd, nn.modules.padding._ReflectionPadNd), _padded),
    (nn.modules.padding._CircularPadNd, _padded),
    (nn.RNNBase, _recurrent),
    (nn.MultiheadAttention, lambda m: Everything(keeps=0 if m.batch_first else 1)),
    (nn.EmbeddingBag, lambda _: Everything(keeps=0)),
]

_POINTWISE_MODULES = frozenset(
    cls
    for room in (nn.modules.activation, nn.modules.dropout, nn.modules.linear)
    for cls in vars(room).values()
    if isinstance(cls, type)
    and issubclass(cls, nn.Module)
    and cls.__name__ not in {"Module", "GLU", "MultiheadAttention", "Linear", "Bilinear", "LazyLinear"}
)


# ---------------------------------------------------------------- functions


def _conv_op(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    n = int(found[2])
    transposed = bool(found[1])
    names = ("stride", "padding", "output_padding", "groups", "dilation") if transposed else (
        "stride", "padding", "dilation", "groups",
    )  # fmt: skip
    given = {**dict(zip(names, args[3:], strict=False)), **kwargs}
    weight = kwargs["weight"] if "weight" in kwargs else args[1]
    kernel = tuple(weight.shape[2:])
    dilation = _each(given.get("dilation", 1), n)
    padding = _padding(given.get("padding", 0), kernel, dilation, n)
    return Window(kernel, _each(given.get("stride", 1), n), padding, dilation, transposed=transposed)


def _pool_op(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    names = ("kernel_size", "stride", "padding", "dilation")[: 4 if found[1] == "max" else 3]
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    padding, dilation = given.get("padding", 0), given.get("dilation", 1) if found[1] == "max" else 1
    return _pool(int(found[2]), given["kernel_size"], given.get("stride"), padding, dilation)


def _interpolate(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    names = ("size", "scale_factor", "mode", "align_corners")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    mode = str(given.get("mode", "nearest"))
    return Resize(f"antialiased {mode}" if given.get("antialias") else mode, bool(given.get("align_corners")))


def _pad(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    given = {**dict(zip(("pad", "mode"), args[1:], strict=False)), **kwargs}
    return _shift(tuple(given["pad"]), str(given.get("mode", "")))


def _reduce(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    dims = kwargs["dim"] if "dim" in kwargs else args[1] if len(args) > 1 else None
    if isinstance(dims, torch.Tensor):  # `max(a, b)`
        return Pointwise()
    return Reduce(None if dims is None else _ints(dims))


def _permute(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    dims = kwargs["dims"] if "dims" in kwargs else args[1:]
    return Permute(_ints(dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims))


def _transpose(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    ndim = args[0].ndim
    dims = list(range(ndim))
    if found[0] in ("t", "t_", "T", "numpy_T"):
        return Permute(tuple(reversed(dims)))
    a, b = (-2, -1) if found[0] == "mT" else _ints([*args[1:], *kwargs.values()])
    dims[a % ndim], dims[b % ndim] = dims[b % ndim], dims[a % ndim]
    return Permute(tuple(dims))


def _getitem(_: re.Match[str], args: Sequence[Any], __: dict[str, Any]) -> Reach | None:
    tensor, index = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
    if not all(item is None or item is ... or isinstance(item, (int, slice)) for item in index):
        # With tensors of numbers or of truth values: which go where depends on what is in them.
        first = index[0] if index else None
        return Everything("indexing taken to see all", keeps=0 if first in (slice(None), ...) else None)
    missing = tensor.ndim - sum(item is not None and item is not ... for item in index)
    expanded: list[Any] = []
    for item in index:
        expanded += [slice(None)] * missing if item is ... else [item]
    items: list[int | tuple[int, int] | None] = []
    axis = 0
    for item in expanded:
        if item is None:
            items.append(None)
            continue
        if isinstance(item, slice):
            start, _stop, step = item.indices(tensor.shape[axis])
            items.append((start, step))
        else:
            items.append(item)
        axis += 1
    return Index(tuple(items))


def _along(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    dim = kwargs["dim"] if "dim" in kwargs else args[1] if len(args) > 1 else None
    return Everything() if dim is None else Along(_ints(dim))


def _joined(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    (dim,) = _ints(kwargs.get("dim", args[1] if len(args) > 1 else 0))
    ndim = next(item.ndim for item in (args[0] if args else kwargs["tensors"]))
    channels = dim % ndim == 1 or (ndim == 3 and dim % ndim == 2)
    return Along((dim,), "" if channels else f"parts joined along axis {dim}")


def _stack(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    return Drop(_ints(kwargs.get("dim", args[1] if len(args) > 1 else 0))[0])


def _product(found: re.Match[str], args: Sequence[Any], _: dict[str, Any]) -> Reach:
    if len(args) > 1 and isinstance(args[1], nn.Parameter) and args[1].ndim <= 2:
        return Along((-1,))
    note = f"{found[0]} taken to see all"
    if found[0] == "einsum":
        return Everything(note, keeps=0 if _einsum_keeps_first(args) else None)
    left, right = args[-2:]
    # A square matrix on the left may mix samples, as the adjacency of a graph does; else it can only be seen.
    batched = left.ndim > 2 and right.ndim > 2
    return Everything(note, keeps=0 if batched or left.shape[0] != left.shape[-1] else None)


def _einsum_keeps_first(args: Sequence[Any]) -> bool:
    """Whether the first axis of the result is that of each operand, or of another size than theirs."""
    equation, tensors = args[0], args[1:]
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return False
    given, result = equation.replace(" ", "").split("->")
    operands = given.split(",")
    sizes = {
        letter: n
        for axes, t in zip(operands, tensors, strict=True)
        for letter, n in zip(axes, t.shape, strict=True)
    }
    return bool(result) and all(
        axes[:1] == result[0] or (axes and sizes[axes[0]] != sizes[result[0]]) for axes in operands
    )


def _setitem(_: re.Match[str], args: Sequence[Any], __: dict[str, Any]) -> Reach:
    first = args[1][0] if isinstance(args[1], tuple) and args[1] else args[1]
    whole = first is ... or (isinstance(first, slice) and first == slice(None))
    return Everything("assignment taken to see all", keeps=0 if whole else None)


def _repeated(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    times = args[1:] or tuple(kwargs.values())
    first = times[0][0] if times and isinstance(times[0], (tuple, list)) else times[0] if times else 0
    return Everything(f"{found[0]} taken to see all", keeps=0 if first == 1 else None)


def _pick(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    """`gather(x, dim, index)` and its like: values come from anywhere along one axis."""
    at = 2 if found[0] == "take_along_dim" else 1
    dim = kwargs["dim"] if "dim" in kwargs else args[at]
    return Along(_ints(dim), f"{found[0]} taken to see all along its axis")


def _sorted(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    at = 2 if found[0] == "topk" else 1
    dim = kwargs["dim"] if "dim" in kwargs else args[at] if len(args) > at else -1
    return Along(_ints(dim), f"{found[0]} taken to see all along its axis")


def _rolled(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    dims = kwargs["dims"] if "dims" in kwargs else args[2] if len(args) > 2 else None
    note = f"{found[0]} taken to see all along its axes"
    return Everything(note) if dims in (None, ()) else Along(_ints(dims), note)


def _flipped(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    dims = kwargs["dims"] if "dims" in kwargs else args[1] if len(args) == 2 else args[1:]
    return Along(_ints(dims))


def _parts(found: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    """`chunk`, `split`, `unbind`: which part the output is of, nothing tells."""
    at = 1 if found[0] == "unbind" else 2
    dim = kwargs["dim"] if "dim" in kwargs else args[at] if len(args) > at else 0
    axis = int(dim) % args[0].ndim
    note = f"{found[0]} taken to see all along its axis"
    return Everything(note, keeps=0 if axis else None) if found[0] == "unbind" else Along((axis,), note)


def _norm_op(_: re.Match[str], args: Sequence[Any], kwargs: dict[str, Any]) -> Reach:
    shape = kwargs["normalized_shape"] if "normalized_shape" in kwargs else args[1]
    return Along((-1,)) if len(_ints(shape)) == 1 else NORMALISED


_OPS: list[tuple[str, Callable[[re.Match[str], Any, Any], Reach | None]]] = [
    (r"conv(_transpose)?([123])d", _conv_op),
    (r"(max|avg)_pool([123])d(?:_with_indices)?", _pool_op),
    (r"adaptive_(?:max|avg)_pool([123])d(?:_with_indices)?", lambda found, _, __: Adaptive(int(found[1]))),
    (r"interpolate|upsample", _interpolate),
    (r"pixel_(un)?shuffle", lambda found, args, _: Pixels(int(args[1]), up=not found[1])),
    (r"pad", _pad),
    (r"mean|sum|amax|amin|max|min|std|var|logsumexp|prod|median|norm|any|all|argmax|argmin", _reduce),
    (
        r"view|reshape|flatten|ravel|unflatten|unsqueeze_?|squeeze_?|view_as|reshape_as",
        lambda *_: Reshape(),
    ),
    (r"permute", _permute),
    (r"(?:swapaxes|swapdims|transpose)_?|T|mT|t_?", _transpose),
    (r"getitem", _getitem),
    (r"log_softmax|softmax|softmin|glu|cumsum|normalize", _along),
    (r"flip", _flipped),
    (r"index_select|gather|take_along_dim|index_copy_?|index_add_?|index_fill_?|scatter\w*", _pick),
    (r"sort|argsort|topk|cummax|cummin|kthvalue|mode", _sorted),
    (r"roll", _rolled),
    (r"setitem", _setitem),
    (r"repeat|tile", _repeated),
    (r"chunk|split|split_with_sizes|tensor_split|unbind", _parts),
    (
        r"take|masked_\w+_?|index_put_?|put_?|fliplr|flipud|rot90|repeat_interleave|tensordot|unfold|as_strided|[hvd](?:split|stack)",
        lambda found, *_: Everything(f"{found[0]} taken to see all"),
    ),
    (r"cat|concat|concatenate", _joined),
    (r"stack", _stack),
    (r"linear|bilinear", lambda *_: Along((-1,))),
    (r"matmul|mm|bmm|einsum|addmm|baddbmm", _product),
    (r"embedding", lambda *_: Drop(-1)),
    (r"layer_norm|rms_norm", _norm_op),
    (r"group_norm|instance_norm", lambda *_: NORMALISED),
    (r"scaled_dot_product_attention", lambda *_: Everything(keeps=0)),
    (r"multi_head_attention_forward", lambda *_: Everything(keeps=1)),
    (r"fft_.*|stft|istft", lambda found, *_: Everything(f"{found[0]} taken to see all", keeps=0)),
]

_POINTWISE = frozenset(
    {
        "abs", "add", "alpha_dropout", "batch_norm", "bernoulli", "bitwise_and", "bitwise_not",
        "bitwise_or", "bool", "byte", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "clip", "clone",
        "asin", "atan", "copy", "cos", "cosh", "detach",
        "div", "double", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "elu", "eq", "erf", "exp", "exp2", "expand", "expand_as", "expm1", "fill", "float", "floor",
        "floor_divide", "floordiv", "ge", "gelu", "gt", "half", "hardshrink", "hardsigmoid", "hardswish",
        "hardtanh", "int", "isfinite", "isnan", "le", "leaky_relu", "lerp", "log", "log10", "log1p", "log2",
        "logical_and", "logical_not", "logical_or", "logsigmoid", "long", "lt", "masked_fill", "maximum",
        "minimum", "mish", "mod", "mul", "nan_to_num", "ne", "neg", "pow", "prelu", "reciprocal", "relu",
        "relu6", "remainder", "round", "rrelu", "rsqrt", "rsub", "selu", "sigmoid", "sign", "silu", "sin",
        "sinh", "softplus", "softshrink", "softsign", "sqrt", "square", "sub", "tan", "tanh", "tanhshrink",
        "threshold", "true_divide", "trunc", "type_as", "where", "xlogy", "zero", "zeros_like", "bfloat16",
    }
)  # fmt: skip


# ---------------------------------------------------------------- arguments


def _pool(n: int, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Reach:
    size = _each(kernel, n)
    # An empty stride (`[]`) means the kernel's, as None does.
    step = size if stride is None or stride in ((), []) else _each(stride, n)
    return Window(size, step, _each(padding, n), _each(dilation, n), dense=False)


def _shift(by: tuple[Any, ...], mode: str) -> Reach:
    """`by` has (before, after) of the last axis first."""
    note = f"{mode} padding" if mode in ("circular", "reflect") else ""
    return Shift(tuple(int(before) for before in by[-2::-2]), note)


def _padding(padding: Any, kernel: Sequence[int], dilation: Sequence[int], n: int) -> tuple[int, ...]:
    if padding == "same":
        return tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    return (0,) * n if padding == "valid" else _each(padding, n)


def _each(value: Any, n: int) -> tuple[int, ...]:
    values = (int(value),) if isinstance(value, int) else tuple(int(one) for one in value)
    return values * n if len(values) == 1 else values


def _ints(value: Any) -> tuple[int, ...]:
    return (int(value),) if isinstance(value, int) else tuple(int(one) for one in value)
