"""The named parts of a model: modules, parameters and the inputs of its forward."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from nansense_widgets.capture.leaves import leaves

__all__ = ["ModuleIndex", "unwrap"]


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
        return ModuleIndex(model, modules, names, aliases, _inputs(model))

    def is_current(self) -> bool:
        """Whether the model still has the same modules under the same names."""
        if is_plain_leaf(self.root):
            return id(self.root) in self.names
        return {id(module): name for name, module in self.root.named_modules()} == self.names

    def bind_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments of one call of the root by the forward's parameter names."""
        try:
            bound = inspect.signature(self.root.forward).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the call is about to fail, or the forward hides its signature
            return {f"arg{i}": value for i, value in enumerate(args)} | dict(kwargs)
        named: dict[str, Any] = {}
        for name, value in bound.items():
            kind = inspect.signature(self.root.forward).parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return {name: value for name, value in named.items() if next(leaves(value), None) is not None}


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


def _inputs(model: nn.Module) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind not in variadic)
