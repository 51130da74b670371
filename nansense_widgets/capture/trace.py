"""Records one batch's forwards: what ran in what order, and which value went where."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.names import OpKey
from nansense_widgets.capture.passes import grad_fn_of
from nansense_widgets.capture.reach import Pointwise, Reach

__all__ = ["MAX_CALLS", "Ran", "Trace", "TracedCall"]

Node = str | OpKey
"""A module or an input by its name; an op by its key, since its name is settled after the forward."""

MAX_STEPS_BACK = 200
MAX_CALLS = 64
"""Calls of one node that are told apart; those after count as the last."""

GRAD_FNS = 64
"""Graph nodes remembered at a time: each keeps what it saved for backward alive, so they are few."""


@dataclass
class Ran:
    """What one node did in the traced batch."""

    cls: str
    detail: str = ""
    calls: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    paths: tuple[str, ...] = ()
    parameters: set[str] = field(default_factory=set)
    stands_for: int = 1
    """Ops in one call of the scope that this node is: more than 1 only for the last of very many."""


@dataclass
class TracedCall:
    """What one call of a node did; `reach` if the call itself tells it."""

    shape: tuple[int, ...] = ()
    sources: set[tuple[Node, int]] = field(default_factory=set)
    reach: Reach | None = None


class Trace:
    """Filled by the forward watch while a batch runs; read once at its end.

    Args:
        parameter_names: names of the model's parameters by `id`.
    """

    def __init__(self, parameter_names: dict[int, str]) -> None:
        self.ran: dict[Node, Ran] = {}
        self.edges: set[tuple[Node, Node]] = set()
        self.calls: dict[tuple[Node, int], TracedCall] = {}
        self._inputs: set[Node] = set()
        self.called_directly: dict[str, OpKey] = {}
        self.op_counts: dict[tuple[str, str], int] = {}
        self._parameter_names = parameter_names
        # Weak: a trace must not keep activations alive that the user's forward lets go.
        self._producers: Any = WeakIdKeyDictionary()
        self._grad_fns: OrderedDict[int, tuple[Hashable, tuple[Node, int]]] = OrderedDict()

    def node(self, node: Node, cls: str) -> Ran:
        """The record of a node, made when it runs first."""
        ran = self.ran.get(node)
        if ran is None:
            ran = self.ran[node] = Ran(cls)
        return ran

    def consume(self, node: Node, value: Any) -> None:
        """Note that `node` reads the tensors in `value`."""
        for _, tensor in leaves(value):
            name = self._parameter_names.get(id(tensor))
            if name is not None:
                self.ran[node].parameters.add(name)
                continue
            for source in self._sources(tensor):
                if source[0] != node:
                    self.edges.add((source[0], node))
                if source != self._call(node):
                    self._record(node).sources.add(source)

    def produce(self, node: Node, value: Any) -> None:
        """Note that `node` made the tensors in `value` (or changed them in place)."""
        self.gave(node, value)
        for _, tensor in leaves(value):
            self._own(node, tensor)
            base = tensor._base
            if base is not None and base in self._producers and tensor._version:
                # An op in place on a view changes what it is a view of.
                self._own(node, base)

    def enter(self, node: str, value: Any) -> None:
        """Note that an input brings the tensors in `value`; one that several bring is the first one's."""
        self.gave(node, value)
        for _, tensor in leaves(value):
            if self._producers.get(tensor, (None, 0))[0] not in self._inputs:
                self._own(node, tensor)
        self._inputs.add(node)

    def gave(self, node: Node, value: Any) -> None:
        """Note the shapes of what `node` gave."""
        outputs = list(leaves(value))
        ran = self.ran[node]
        ran.paths = tuple(path for path, _ in outputs)
        ran.shapes = tuple(_shape(tensor) for _, tensor in outputs)
        first = ran.shapes[0] if ran.shapes else ()
        # Sizes of a jagged tensor are symbols, with which nobody can count.
        self._record(node).shape = first if all(type(size) is int for size in first) else ()

    def passed_on(self, node: Node, value: Any) -> None:
        """Note that a scope gave what a layer inside it had made."""
        self.gave(node, value)
        first = next(leaves(value), None)
        if first is not None:
            record = self._record(node)
            record.sources |= self._sources(first[1]) - {self._call(node)}
            record.reach = Pointwise()

    def looks_back(self, node: Node, reach: Reach | None) -> None:
        """Note how the call of a node that is under way looks back at what it reads."""
        self._record(node).reach = reach

    def alias(self, value: Any, source: Any) -> None:
        """Note that the tensors in `value` are those in `source` under another name."""
        origin = next((self._producers.get(t) for _, t in leaves(source) if t in self._producers), None)
        if origin is not None:
            for _, tensor in leaves(value):
                if tensor not in self._producers:
                    self._made_by(origin, tensor)

    def end_forward(self) -> None:
        """The outermost forward is over: let its graph go."""
        self._grad_fns.clear()

    def call_directly(self, module: str, op: OpKey) -> None:
        """Note that `module.forward()` was called, past the call that hooks see; `op` ran in it."""
        self.called_directly.setdefault(module, op)

    def _call(self, node: Node) -> tuple[Node, int]:
        return node, min(self.ran[node].calls, MAX_CALLS)

    def _record(self, node: Node) -> TracedCall:
        return self.calls.setdefault(self._call(node), TracedCall())

    def _own(self, node: Node, tensor: torch.Tensor) -> None:
        self._made_by(self._call(node), tensor)

    def _made_by(self, call: tuple[Node, int], tensor: torch.Tensor) -> None:
        self._producers[tensor] = call
        grad_fn = grad_fn_of(tensor)
        if grad_fn is not None:
            self._grad_fns[id(grad_fn)] = (grad_fn, call)
            if len(self._grad_fns) > GRAD_FNS:
                self._grad_fns.popitem(last=False)

    def _sources(self, tensor: torch.Tensor) -> set[tuple[Node, int]]:
        known = self._producers.get(tensor)
        if known is None and tensor._base is not None:
            known = self._producers.get(tensor._base)
        if known is not None:
            return {known}
        # Made where no hook sees it (a custom autograd function): follow the graph back to known values.
        found: set[tuple[Node, int]] = set()
        seen: set[int] = set()
        made_by = grad_fn_of(tensor)
        front: list[Any] = [made_by] if made_by is not None else []
        while front and len(seen) < MAX_STEPS_BACK:
            grad_fn = front.pop()
            if id(grad_fn) in seen:
                continue
            seen.add(id(grad_fn))
            entry = self._grad_fns.get(id(grad_fn))
            if entry is not None:
                found.add(entry[1])
            else:
                front.extend(step for step, _ in grad_fn.next_functions if step is not None)
        return found


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    # A nested tensor in strided layout has no shape: asking for it raises.
    return () if tensor.is_nested and tensor.layout is torch.strided else tuple(tensor.shape)
