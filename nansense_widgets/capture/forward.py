"""Watches the model's own forward: module hooks for scopes, a function mode for the ops between them.

Hooks are torch's global module hooks, filtered by the model's own modules, not hooks on the modules: the
model stays as it is (a deep copy or a pickle taken meanwhile carries nothing of ours), and torch's fused
attention path, which is left when a module has hooks, is left alone. Only a watched module that has
forward hooks of the user's own gets one of ours behind them for the batch, to see what they returned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.attention import maps_of_call
from nansense_widgets.capture.hooks import MODULE_HOOKS
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.modules import ModuleIndex, is_plain_leaf, may_run_fused
from nansense_widgets.capture.names import OpKey, OpNames
from nansense_widgets.capture.ops import op_detail, op_kind
from nansense_widgets.capture.passes import in_backward, is_traced
from nansense_widgets.capture.reach_of import reach_of_op
from nansense_widgets.capture.trace import Trace
from nansense_widgets.capture.values import Kept

__all__ = ["ForwardWatch", "RootListener", "Taker"]

OPS = 100
"""Ops of one name in one call of a scope that are layers of their own. Those after stand under the last: a
recurrent loop over thousands of steps is a graph that nobody could read."""


class Taker(Protocol):
    """What a watch hands values to."""

    def take(self, layer: str, call: int, value: Any) -> None:
        """Keep the tensors in `value`, now."""

    def add_maps(self, layer: str, call: int, maps: Kept) -> None:
        """Attention weights that were formed beside a call of the layer."""

    def recomputed(self, layer: str, value: Any) -> None:
        """`value` is computed a second time, in the backward."""


class RootListener(Protocol):
    """Is told of calls of the model itself, on the thread that trains."""

    def entered(self, call: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call of the model begins; calls count from 1."""

    def left(self, call: int, output: Any) -> None:
        """It has given its output."""


@dataclass
class _Frame:
    """One call of a module that is under way."""

    name: str
    module: nn.Module
    call: int
    hides_ops: bool
    ops: dict[str, int] = field(default_factory=dict)
    inner: int = 0


class ForwardWatch:
    """Observes the forwards of one batch on the thread that made it.

    Args:
        names: names of ops, settled in earlier batches.
        taps: layers whose values go to `taker` at the moment they exist.
        maps: those of them whose attention weights are wanted too.
        trace: records the architecture as well, if given.
        on_error: told of an error of ours; the watch then stops and the forward goes on.
        root: is told of calls of the model itself, if given.
        replaced: of a probe, ops among `taps` to what the model is given in place of their result.
    """

    def __init__(
        self,
        index: ModuleIndex,
        names: OpNames,
        taps: frozenset[str],
        taker: Taker,
        maps: frozenset[str],
        trace: Trace | None,
        on_error: Callable[[Exception], None],
        root: RootListener | None = None,
        replaced: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._root = root
        self._replaced = replaced or {}
        self._index = index
        self._names = names
        self._taps = taps
        self._taker = taker
        self._maps = maps
        self._trace = trace
        self._on_error = on_error
        self._thread = threading.get_ident()
        self._stack: list[_Frame] = []
        self._calls: dict[str, int] = {}
        self._handles: list[RemovableHandle] = []
        self._mode: _OpMode | None = None
        self._op_scopes = frozenset(key.scope for tap in taps if (key := names.key(tap)) is not None)
        self._wants_ops = trace is not None or bool(self._op_scopes)
        self._broken = False
        self._hooked: set[str] = set()
        self._left: dict[str, int] = {}
        """The call that a module with hooks of the user's own has just left."""
        self.root_called = False
        self.saw_call = False
        self.elsewhere: set[str] = set()
        """Modules that ran on other threads."""
        self.saw_replica = False
        """Whether copies that DataParallel makes have run."""
        self.fused: set[str] = set()
        """Modules that were entered in a state in which torch may compute what is inside them in one go."""

    @property
    def called(self) -> Iterable[str]:
        """Layers that have been called so far."""
        return self._calls

    # ------------------------------------------------------------ on and off

    def install(self) -> None:
        """Begin to watch."""
        MODULE_HOOKS.add(self)
        for name in self._taps:
            module = self._index.modules.get(name)
            if module is not None and module._forward_hooks:
                # The user's own hooks run after global ones and may replace the output.
                self._hooked.add(name)
                self._handles.append(module.register_forward_hook(_AfterUserHooks(self, name)))

    def remove(self) -> None:
        """Stop; a forward that is still under way is left alone."""
        MODULE_HOOKS.remove(self)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()
        self._pop_mode()

    # ------------------------------------------------------------ module hooks

    def enter(self, module: nn.Module, args: tuple[Any, ...], caller: FrameType) -> None:
        """A module is called; `caller` is the frame of `Module._call_impl`'s inner function."""
        if is_traced():
            return
        name = self._index.names.get(id(module))
        if name is None or self._broken or threading.get_ident() != self._thread or in_backward():
            self._note_elsewhere(name, module)
            return
        try:
            self.saw_call = True
            call = self._calls[name] = self._calls.get(name, 0) + 1
            if self._stack:
                self._stack[-1].inner += 1
            self._stack.append(_Frame(name, module, call, is_plain_leaf(module)))
            if self._trace is not None and name:
                self._trace.node(name, type(module).__name__)
            if may_run_fused(module):
                self.fused.add(name)
                self._pop_mode()
            elif self._wants_ops and self._mode is None and not self._is_fused():
                self._push_mode()
            if module is self._index.root:
                self.root_called = True
                # Torch gives the keywords to a module's own pre-hooks only, and such a hook would be part of
                # the model: of a deep copy or a pickle taken during the batch. The caller holds them; a torch
                # that keeps them elsewhere shows no keyword inputs.
                kwargs = caller.f_locals.get("kwargs")
                with torch._C.DisableTorchFunction():
                    self._read_inputs(call, args, kwargs if isinstance(kwargs, dict) else {})
                    if self._root is not None:
                        self._root.entered(call, args, kwargs if isinstance(kwargs, dict) else {})
        except Exception as error:
            self._fail(error)

    def _note_elsewhere(self, name: str | None, module: nn.Module) -> None:
        if name is None:
            self.saw_replica = self.saw_replica or getattr(module, "_is_replica", False)
        elif threading.get_ident() != self._thread and not in_backward():
            self.elsewhere.add(name)

    def _read_inputs(self, call: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in self._index.bind_inputs(args, kwargs).items():
            layer = input_name(self._index, name)
            if self._trace is not None and len(self._stack) == 1:
                self._trace.node(layer, "input").calls += 1
                self._trace.enter(layer, value)
            if layer in self._taps:
                self._taker.take(layer, call, value)

    def leave(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """The call of a module is over."""
        # When the forward raised, torch calls this without the keywords and with no output.
        if is_traced():
            return
        name = self._index.names.get(id(module))
        if name is None or self._broken or threading.get_ident() != self._thread:
            return
        if in_backward():
            self._leave_again(name, rest)
            return
        try:
            if not any(frame.module is module for frame in self._stack):
                return
            while (frame := self._stack.pop()).module is not module:
                pass  # frames of inner modules that an exception not derived from Exception left behind
            if len(rest) == 2:
                kwargs, output = rest
                # What follows looks at the user's tensors: no mode or subclass of theirs is to see it.
                with torch._C.DisableTorchFunction():
                    if name in self._hooked:
                        self._left[name] = frame.call
                    elif name in self._taps:
                        self._taker.take(name, frame.call, output)
                    if name in self._maps:
                        self._taker.add_maps(name, frame.call, maps_of_call(module, args, kwargs))
                    if self._root is not None and module is self._index.root:
                        self._root.left(frame.call, output)
                    if self._trace is not None:
                        self._trace_call(frame, args, kwargs, output)
            if not self._stack:
                self._pop_mode()
                if self._trace is not None:
                    self._trace.end_forward()
            elif self._wants_ops and self._mode is None and not self._is_fused():
                self._push_mode()
        except Exception as error:
            self._fail(error)

    def _leave_again(self, name: str, rest: tuple[Any, ...]) -> None:
        if len(rest) == 2 and name in self._taps:
            try:
                with torch._C.DisableTorchFunction():
                    self._taker.recomputed(name, rest[1])
            except Exception as error:
                self._fail(error)

    def _trace_call(self, frame: _Frame, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        trace = self._trace
        assert trace is not None
        for op, count in frame.ops.items():
            key = (frame.name, op)
            trace.op_counts[key] = max(min(count, OPS), trace.op_counts.get(key, 0))
        if not frame.name:
            return
        ran = trace.node(frame.name, type(frame.module).__name__)
        ran.calls += 1
        if frame.hides_ops or frame.inner == 0:
            trace.consume(frame.name, (args, kwargs))
            trace.produce(frame.name, output)
        else:
            trace.passed_on(frame.name, output)

    def take_after_user_hooks(self, name: str, output: Any) -> None:
        """Keep the output of a module that has hooks of the user's own, as they left it."""
        if self._broken or threading.get_ident() != self._thread or in_backward():
            return
        try:
            with torch._C.DisableTorchFunction():
                self._taker.take(name, self._left.get(name, 1), output)
        except Exception as error:
            self._fail(error)

    # ------------------------------------------------------------ ops

    def on_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Called by the function mode after each torch call; what the caller is given."""
        if self._broken or not self._stack or threading.get_ident() != self._thread:
            return result
        with torch._C.DisableTorchFunction():
            return self._on_op(func, args, kwargs, result)

    def _on_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        frame = self._stack[-1]
        if frame.hides_ops or (self._trace is None and frame.name not in self._op_scopes) or in_backward():
            return result
        try:
            kind = op_kind(func)
            value = args[0] if kind.returns_self and args else result
            # A custom autograd function that returns an input unchanged makes torch call `x.view_as(x)`.
            if kind.alias or (kind.name == "view_as" and len(args) == 2 and args[0] is args[1]):
                if self._trace is not None:
                    self._trace.alias(value, args)
                return result
            if next(leaves(value), None) is None:
                return result
            count = frame.ops.get(kind.name, 0)
            frame.ops[kind.name] = count + 1
            ordinal = min(count, OPS - 1)
            frame.inner += 1
            key = OpKey(frame.name, kind.name, ordinal)
            layer = self._names.get(key)
            if layer is None:
                layer = next((guess for guess in self._names.guesses(key) if guess in self._taps), None)
            if layer in self._taps and layer is not None:
                call = self._calls[layer] = self._calls.get(layer, 0) + 1
                if layer in self._replaced:
                    value = self._replaced[layer](value)
                    result = args[0] if kind.returns_self and args else value
                self._taker.take(layer, call, value)
                if layer in self._maps:
                    self._taker.add_maps(layer, call, maps_of_call(None, args, kwargs))
            if self._trace is not None:
                ran = self._trace.node(key, kind.name)
                ran.calls += 1
                ran.stands_for = max(ran.stands_for, count - ordinal + 1)
                ran.detail = op_detail(args, kwargs)
                self._trace.looks_back(key, reach_of_op(kind.name, args, kwargs))
                self._trace.consume(key, (args, kwargs))
                self._trace.produce(key, value)
                direct = self._index.called_directly(frame.module)
                if direct is not None and all(above.name != direct for above in self._stack):
                    self._trace.call_directly(direct, key)
        except Exception as error:
            self._fail(error)
        return result

    def _push_mode(self) -> None:
        self._mode = _OpMode(self)
        self._mode.__enter__()  # type: ignore[no-untyped-call]  # torch's own, without types

    def _pop_mode(self) -> None:
        if self._mode is None:
            return
        self._mode.watch = None
        stack = list(torch.overrides._get_current_function_mode_stack())
        if self._mode in stack:
            # Modes that the user's forward entered and left on lie above ours and stay.
            above = stack[stack.index(self._mode) + 1 :]
            for _ in range(len(above) + 1):
                torch.overrides._pop_mode()
            for mode in above:
                torch.overrides._push_mode(mode)
        self._mode = None

    def _is_fused(self) -> bool:
        return any(may_run_fused(frame.module) for frame in self._stack)

    def _fail(self, error: Exception) -> None:
        self._broken = True
        self._on_error(error)


class _AfterUserHooks:
    """A forward hook behind the user's own; a copy of the module gets one that does nothing."""

    def __init__(self, watch: ForwardWatch | None, name: str) -> None:
        self._watch = watch
        self._name = name

    def __call__(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if self._watch is not None and not is_traced():
            self._watch.take_after_user_hooks(self._name, output)

    def __reduce__(self) -> tuple[type[_AfterUserHooks], tuple[None, str]]:
        return _AfterUserHooks, (None, self._name)


def input_name(index: ModuleIndex, name: str) -> str:
    """Layer name of an input: its parameter's name, unless a module has that name already."""
    return f"{name}_input" if name in index.modules else name


class _OpMode(TorchFunctionMode):
    """Passes every torch call on unchanged and then reports it."""

    def __init__(self, watch: ForwardWatch) -> None:
        super().__init__()
        self.watch: ForwardWatch | None = watch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_traced():
            return func(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        return result if self.watch is None else self.watch.on_op(func, args, kwargs or {}, result)
