"""The named parts of a model: modules, parameters and the inputs of its forward."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from nansense_widgets.capture.leaves import leaves

__all__ = ["ModuleIndex", "input_names", "unwrap"]

FRAMES = 16
"""Python frames looked at from an op up to the forward that it belongs to."""


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside `torch.compile`'s wrapper, whose forward and parameters are the same objects."""
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


@dataclass(frozen=True)
class ModuleIndex:
    """Modules and parameters of one model by name, as they were when it was built.

    A module or parameter with several names (shared, tied) is listed under the first; `aliases` maps the
    others to it.
    """

    root: nn.Module
    modules: dict[str, nn.Module]
    names: dict[int, str]
    """Name of a module by `id`; `""` is the root."""
    aliases: dict[str, str]
    inputs: tuple[str, ...]
    """Names of the forward's parameters; `*name` and `**name` for variadic ones."""
    forward_codes: frozenset[CodeType]
    """Code of the modules' forwards, by which their frames are known."""

    @staticmethod
    def of(model: nn.Module) -> ModuleIndex:
        modules: dict[str, nn.Module] = {}
        names: dict[int, str] = {}
        aliases: dict[str, str] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            if id(module) in names:
                aliases[name] = names[id(module)]
                continue
            names[id(module)] = name
            modules[name] = module
        if is_plain_leaf(model):  # a bare `nn.Linear(…)` as the model: its only layer needs a name
            only = type(model).__name__.lower()
            modules = {only: model}
            names = {id(model): only}
        else:
            modules.pop("", None)
        codes = {code for module in modules.values() if (code := _forward_code(module)) is not None}
        return ModuleIndex(model, modules, names, aliases, _inputs(model), frozenset(codes))

    def is_current(self) -> bool:
        """Whether the model still has the same modules under the same names."""
        if is_plain_leaf(self.root):
            return id(self.root) in self.names
        return {id(module): name for name, module in self.root.named_modules()} == self.names

    def called_directly(self, inside: nn.Module) -> str | None:
        """Name of a module whose `forward` runs now although the innermost module *called* is `inside`.

        Read off the Python frames of the op under way. A frame's variables are looked at only where its code
        is the forward of a module class of this model, since looking at them copies them.
        """
        frame: FrameType | None = sys._getframe(1)
        own = _forward_code(inside)
        for _ in range(FRAMES):
            frame = None if frame is None else frame.f_back
            if frame is None or frame.f_code is own:
                return None
            if frame.f_code in self.forward_codes:
                module = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_varnames else None
                return None if module is inside else self.names.get(id(module))
        return None

    def bind_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments of one call of the root by the forward's parameter names."""
        try:
            signature = inspect.signature(self.root.forward)
            bound = signature.bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the call is about to fail, or the forward hides its signature
            return {f"arg{i}": value for i, value in enumerate(args)} | dict(kwargs)
        named: dict[str, Any] = {}
        for name, value in bound.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return {name: value for name, value in named.items() if next(leaves(value), None) is not None}


def input_names(model: nn.Module) -> tuple[str, ...] | None:
    """Names that inputs of the model can have; None if any name may come (`**kwargs`, or no signature)."""
    try:
        parameters = inspect.signature(unwrap(model).forward).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL) for p in parameters):
        return None
    names = tuple(p.name for p in parameters)
    return (*names, *(f"{name}_input" for name in names))


def is_plain_leaf(module: nn.Module) -> bool:
    """A module of `torch.nn` itself without children: its inner ops are not layers of their own."""
    return type(module).__module__.startswith("torch.nn") and (
        isinstance(module, nn.MultiheadAttention) or not any(True for _ in module.children())
    )


def may_run_fused(module: nn.Module) -> bool:
    """Whether the module's forward may take torch's fused path, which checks that nobody watches.

    `nn.TransformerEncoder`, its layers and `nn.MultiheadAttention` leave that path, and so give other
    last digits, if a hook is on any of their modules or a function mode is on.
    """
    return isinstance(
        module, (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
    ) and not (module.training)


def parameter_count(module: nn.Module) -> int:
    """Elements of all parameters of the module and below, tied ones once, uninitialised ones not at all."""
    return sum(p.numel() for p in module.parameters() if not isinstance(p, UninitializedParameter))


def _forward_code(module: nn.Module) -> CodeType | None:
    # Statically: TorchScript's `forward` is a descriptor that raises on a class.
    code = getattr(inspect.getattr_static(type(module), "forward", None), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _inputs(model: nn.Module) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind not in variadic)
