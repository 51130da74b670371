"""Builds the architecture up from the model's modules and from traced batches."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import MappingProxyType

from torch import nn
from torch.nn.parameter import UninitializedParameter

from nansense_widgets.capture.architecture import Architecture, ArchitectureNode
from nansense_widgets.capture.attention import gives_attention
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.flow import scopes_around, with_axes
from nansense_widgets.capture.forward import input_name
from nansense_widgets.capture.modules import ModuleIndex, parameter_count
from nansense_widgets.capture.names import OpKey, OpNames
from nansense_widgets.capture.reach_of import reach_of_module
from nansense_widgets.capture.receptive import Call, Step
from nansense_widgets.capture.roles import roles_of_module
from nansense_widgets.capture.trace import Node, Ran, Trace

__all__ = ["ArchitectureBuilder"]


class ArchitectureBuilder:
    """Keeps what was learned over the batches of one session.

    Layers and edges add up: a validation phase or a branch taken later adds its own. When the model's
    modules change, `rebuild` starts over with the new ones.
    """

    def __init__(self, model: nn.Module) -> None:
        self._version = 0
        self._chosen: dict[str, Axes] = {}
        self._lock = threading.Lock()  # axes may be chosen on any thread
        self._start(model)
        self.architecture = self._build(0)

    def rebuild(self, model: nn.Module) -> None:
        """Read the model's modules anew and forget the forwards seen so far."""
        with self._lock:
            self._start(model)
            self._renew()

    def choose_axes(self, output: str, axes: Axes | None) -> None:
        """Let the user's axes of a layer or one of its outputs stand; None: as its class says again."""
        with self._lock:
            self._chosen.pop(output, None)
            if axes is not None:
                self._chosen[output] = axes
            self._renew()

    @property
    def chosen_axes(self) -> dict[str, Axes]:
        """The user's axes, by layer or output."""
        with self._lock:
            return dict(self._chosen)

    def _start(self, model: nn.Module) -> None:
        self.index = ModuleIndex.of(model)
        inputs = [input_name(self.index, name) for name in self.index.inputs]
        self.names = OpNames([*self.index.modules, *inputs])
        self._inputs = inputs
        self._ran: dict[Node, Ran] = {}
        self._order: dict[Node, None] = {}
        self._edges: set[tuple[str, str]] = set()
        self._steps: dict[Call, Step] = {}
        self._called_directly: dict[str, str] = {}
        self._traced = False

    def let_go(self) -> None:
        """Drop the model; the architecture stays as it is."""
        self.index = ModuleIndex.of(nn.Module())

    def add(self, trace: Trace) -> bool:
        """Merge a traced batch; True if that changed the architecture."""
        if not trace.ran:
            return False
        with self._lock:
            self._merge(trace)
            return self._renew()

    def _merge(self, trace: Trace) -> None:
        self.names.settle(trace.op_counts)
        for node, ran in trace.ran.items():
            known = self._ran.get(node)
            if known is not None:
                ran.parameters |= known.parameters
                if not ran.calls:
                    latest = ran if ran.shapes else known
                    ran.shapes, ran.paths = latest.shapes, latest.paths
            self._ran[node] = ran
            self._order.setdefault(node)
        for module, op in trace.called_directly.items():
            self._called_directly.setdefault(module, self._name(op))
        self._edges.update((self._name(a), self._name(b)) for a, b in trace.edges)
        for (node, number), traced in trace.calls.items():
            call = Call(self._name(node), number)
            sources = {Call(self._name(source), at) for source, at in traced.sources}
            if call in self._steps:
                sources |= self._steps[call].sources
            self._steps[call] = Step(traced.shape, frozenset(sources), traced.reach)
        self._traced = True

    def _renew(self) -> bool:
        fresh = self._build(self._version + 1)
        known = self.architecture
        if (fresh.nodes, fresh.edges, fresh.steps) == (known.nodes, known.edges, known.steps):
            return False
        self._version += 1
        self.architecture = fresh
        return True

    def _name(self, node: Node) -> str:
        if isinstance(node, OpKey):
            return self.names.get(node) or f"{node.scope}.{node.op}"
        return node

    def _build(self, version: int) -> Architecture:
        nodes: dict[str, ArchitectureNode] = {}
        for name in self._inputs:
            # Flags and optional tensors that no call has given are no layers; before the first call
            # nobody can tell.
            if name in self._ran or not self._traced:
                nodes[name] = self._input(name)
        for node in self._order:
            if isinstance(node, OpKey):
                nodes[self._name(node)] = self._op(node)
            elif node in self.index.modules:
                nodes[node] = self._module(node)
            elif node not in nodes:
                nodes[node] = self._input(node)
        for name in self.index.modules:
            if name not in nodes:
                nodes[name] = self._module(name)
        scopes = {node.parent for node in nodes.values()}
        ran_inside = {scope for node in nodes.values() if node.ran for scope in scopes_around(node)}
        for name in scopes & nodes.keys():
            nodes[name] = _as_scope(nodes[name], name in ran_inside)
        nodes = with_axes(nodes, self._edges, self.index.modules, self._chosen)
        return Architecture(
            model=type(self.index.root).__name__,
            nodes=nodes,
            edges=frozenset(self._edges),
            traced=self._traced,
            version=version,
            steps=MappingProxyType(dict(self._steps)),
        )

    def _input(self, name: str) -> ArchitectureNode:
        ran = self._ran.get(name)
        return ArchitectureNode(
            name,
            "input",
            "input",
            output_shapes=ran.shapes if ran else (),
            output_paths=ran.paths if ran else (),
            calls=ran.calls if ran else 0,
            ran=ran is not None,
        )

    def _op(self, key: OpKey) -> ArchitectureNode:
        ran = self._ran[key]
        return ArchitectureNode(
            self._name(key),
            "op",
            key.op,
            parent=key.scope,
            hyperparameters=ran.detail,
            parameters=tuple(sorted(ran.parameters)),
            output_shapes=ran.shapes,
            output_paths=ran.paths,
            calls=ran.calls,
            ran=True,
            gives_attention=gives_attention(None, key.op),
            note="" if ran.stands_for == 1 else f"the last {ran.stands_for:,} ops of this name, as its calls",
        )

    def _module(self, name: str) -> ArchitectureNode:
        module = self.index.modules[name]
        ran = self._ran.get(name)
        # A module that is the whole model stands for what is inside it too.
        whole = module is self.index.root
        own = [p for p, _ in module.named_parameters(recurse=whole)]
        prefix = "" if whole else f"{name}."
        around = self.index.modules.get(_parent(name, self.index.modules), self.index.root)
        roles = roles_of_module(module, name.rpartition(".")[2], None if around is module else around)
        return ArchitectureNode(
            name,
            "module",
            type(module).__name__,
            parent=_parent(name, self.index.modules),
            hyperparameters=_hyperparameters(module),
            parameters=tuple(prefix + p for p in own),
            buffers=tuple(prefix + b for b, _ in module.named_buffers(recurse=whole)),
            parameter_count=parameter_count(module),
            output_shapes=ran.shapes if ran else (),
            output_paths=ran.paths if ran else (),
            calls=ran.calls if ran else 0,
            ran=ran is not None and ran.calls > 0,
            aliases=tuple(alias for alias, first in self.index.aliases.items() if first == name),
            gives_attention=gives_attention(module, ""),
            note=self._module_note(name, ran),
            reach=reach_of_module(module),
            roles={prefix + key: role for key, role in roles.items()},
        )

    def _module_note(self, name: str, ran: Ran | None) -> str:
        own = self.index.modules[name].parameters(recurse=False)
        if any(isinstance(parameter, UninitializedParameter) for parameter in own):
            return "uninitialised until its first forward"
        return "" if ran or not self._traced else self._why_never(name)

    def _why_never(self, name: str) -> str:
        parent = self.index.modules.get(_parent(name, self.index.modules))
        if name in self._called_directly:
            return (
                "never called: its forward() or another method ran directly, which no hook sees; "
                f"op {self._called_directly[name]!r} is part of it"
            )
        if isinstance(parent, nn.MultiheadAttention):
            return "not called as a module: the attention around it uses its weights"
        if isinstance(self.index.modules[name], (nn.ModuleList, nn.ModuleDict)):
            return "a container: its modules are called one by one"
        if isinstance(self.index.modules[name], (nn.ParameterList, nn.ParameterDict)):
            return "a container of parameters"
        return "never ran"


def _as_scope(node: ArchitectureNode, ran_inside: bool) -> ArchitectureNode:
    note = "" if ran_inside and node.note == "never ran" else node.note
    return replace(node, is_scope=True, ran=node.ran or ran_inside, note=note)


def _parent(name: str, modules: dict[str, nn.Module]) -> str:
    parent = name.rpartition(".")[0]
    while parent and parent not in modules:  # a shared module is listed under one of its names only
        parent = parent.rpartition(".")[0]
    return parent


def _hyperparameters(module: nn.Module) -> str:
    try:
        return " ".join(module.extra_repr().split())[:200]
    except Exception as error:  # the user's own method, which no training step calls
        return f"(extra_repr raised {type(error).__name__})"
