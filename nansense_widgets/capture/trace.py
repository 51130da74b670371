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

__all__ = ["Ran", "Trace"]

Node = str | OpKey
"""A module or an input by its name; an op by its key, since its name is settled after the forward."""

MAX_STEPS_BACK = 200
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


class Trace:
    """Filled by the forward watch while a batch runs; read once at its end.

    Args:
        parameter_names: names of the model's parameters by `id`.
    """

    def __init__(self, parameter_names: dict[int, str]) -> None:
        self.ran: dict[Node, Ran] = {}
        self.edges: set[tuple[Node, Node]] = set()
        self._inputs: set[Node] = set()
        self.called_directly: dict[str, OpKey] = {}
        self.op_counts: dict[tuple[str, str], int] = {}
        self._parameter_names = parameter_names
        # Weak: a trace must not keep activations alive that the user's forward lets go.
        self._producers: Any = WeakIdKeyDictionary()
        self._grad_fns: OrderedDict[int, tuple[Hashable, Node]] = OrderedDict()

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
                if source != node:
                    self.edges.add((source, node))

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
            if self._producers.get(tensor) not in self._inputs:
                self._own(node, tensor)
        self._inputs.add(node)

    def gave(self, node: Node, value: Any) -> None:
        """Note the shapes of what `node` gave."""
        outputs = list(leaves(value))
        ran = self.ran[node]
        ran.paths = tuple(path for path, _ in outputs)
        ran.shapes = tuple(_shape(tensor) for _, tensor in outputs)

    def alias(self, value: Any, source: Any) -> None:
        """Note that the tensors in `value` are those in `source` under another name."""
        origin = next((self._producers.get(t) for _, t in leaves(source) if t in self._producers), None)
        if origin is not None:
            for _, tensor in leaves(value):
                if tensor not in self._producers:
                    self._own(origin, tensor)

    def end_forward(self) -> None:
        """The outermost forward is over: let its graph go."""
        self._grad_fns.clear()

    def call_directly(self, module: str, op: OpKey) -> None:
        """Note that `module.forward()` was called, past the call that hooks see; `op` ran in it."""
        self.called_directly.setdefault(module, op)

    def _own(self, node: Node, tensor: torch.Tensor) -> None:
        self._producers[tensor] = node
        grad_fn = grad_fn_of(tensor)
        if grad_fn is not None:
            self._grad_fns[id(grad_fn)] = (grad_fn, node)
            if len(self._grad_fns) > GRAD_FNS:
                self._grad_fns.popitem(last=False)

    def _sources(self, tensor: torch.Tensor) -> set[Node]:
        known = self._producers.get(tensor)
        if known is None and tensor._base is not None:
            known = self._producers.get(tensor._base)
        if known is not None:
            return {known}
        # Made where no hook sees it (a custom autograd function): follow the graph back to known values.
        found: set[Node] = set()
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
