"""The architecture: layers and the edges between them, as seen in real forwards."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nansense_widgets.capture.axes import Axes, AxesRule
from nansense_widgets.capture.reach import Reach
from nansense_widgets.capture.receptive import Call, ReceptiveField, ReceptiveFields, Step
from nansense_widgets.capture.roles import ParameterRole

__all__ = ["Architecture", "ArchitectureNode"]


@dataclass(frozen=True)
class ArchitectureNode:
    """A layer: a module, a functional op inside a module, or an input of the model.

    Attributes:
        name: unique; modules by their dotted path, ops by scope and function (`stage1.0.relu1`).
        kind: `module`, `op` or `input`.
        cls: class of the module, name of the op's function, or `input`.
        parent: name of the module around it, "" at the root.
        hyperparameters: as the module prints them; for an op its plain arguments.
        parameters: names of the parameters it owns or, for an op, uses directly.
        buffers: names of the buffers that it owns.
        parameter_count: elements of the parameters of it and all below it; tied ones count once.
        output_shapes: shapes of its output tensors in the last traced forward that ran it.
        output_paths: what continues the layer's name for each of them: "" or e.g. `[1][0]`, `.logits`.
        calls: how often it ran in the last traced batch.
        ran: whether it ran in any traced forward.
        is_scope: whether other layers lie inside it.
        aliases: other names of the same module.
        note: what else to know, e.g. why it never ran; else empty.
        axes: channel and batch axis of the first output, from its class or, for ops and modules that keep
            their input's axes, from the layers before and after it; None if not known.
        gives_attention: whether `session.watch_attention` can form its attention weights.
        axes_rule: the same for every output and number of axes; None if not known.
        reach: how a module looks back at its input; None if not known, or if each call tells it.
        roles: what the axes of its own parameters mean, by name, where that is known.
    """

    name: str
    kind: Literal["module", "op", "input"]
    cls: str
    parent: str = ""
    hyperparameters: str = ""
    parameters: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    parameter_count: int = 0
    output_shapes: tuple[tuple[int, ...], ...] = ()
    output_paths: tuple[str, ...] = ()
    calls: int = 0
    ran: bool = False
    is_scope: bool = False
    aliases: tuple[str, ...] = ()
    note: str = ""
    axes: Axes | None = None
    axes_rule: AxesRule | None = None
    gives_attention: bool = False
    reach: Reach | None = field(default=None, repr=False)
    roles: Mapping[str, ParameterRole] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Architecture:
    """All layers known so far and the data flow between them.

    Over a run, edges and layers of all traced forwards add up: control flow may differ from batch to batch.

    Attributes:
        model: class of the model.
        nodes: layers by name; those that ran come in the order of execution.
        edges: pairs of names, from producer to consumer. They join layers with no layers inside, so that
            they can be drawn at any level of folding.
        traced: False before the first forward, when there are modules and inputs only.
        version: grows with every change.
        steps: what each call of a layer in a batch read, over all traced batches.
    """

    model: str
    nodes: dict[str, ArchitectureNode]
    edges: frozenset[tuple[str, str]]
    traced: bool = False
    version: int = 0
    steps: Mapping[Call, Step] = field(default_factory=dict, repr=False)

    def axes(self, layer: str, path: str, ndim: int) -> Axes | None:
        """Axes of one output of a layer, if they are known for that number of axes."""
        node = self.nodes.get(layer)
        return None if node is None or node.axes_rule is None else node.axes_rule.axes(path, ndim)

    def tensors_of(self, layer: str) -> tuple[list[str], list[str]]:
        """Names of the parameters and of the buffers that a layer holds: its own, then those below it.

        A parameter that several modules share is under each one's own name for it.
        """
        below = f"{layer}."
        parameters: dict[str, None] = {}
        buffers: dict[str, None] = {}
        for node in self.nodes.values():
            names = [name for name in (node.name, *node.aliases) if name == layer or name.startswith(below)]
            if not names or (node.kind == "op" and node.name != layer):
                continue
            prefix = f"{node.name}." if names[0] != node.name else ""
            for known, found in ((node.parameters, parameters), (node.buffers, buffers)):
                # Under another name of the same module its parameters have other names too.
                renamed = (f"{names[0]}.{name.removeprefix(prefix)}" if prefix else name for name in known)
                found.update(dict.fromkeys(renamed))
        return list(parameters), list(buffers)

    def role_of(self, name: str) -> ParameterRole:
        """What the axes of a parameter or buffer mean, under any of its names."""
        owner, _, key = name.rpartition(".")
        for node in self.nodes.values():
            if owner in (node.name, *node.aliases):
                return node.roles.get(f"{node.name}.{key}", ParameterRole())
            if not owner and key in node.roles:  # the module is the whole model
                return node.roles[key]
        return ParameterRole()

    def select(self, pattern: str) -> list[str]:
        """Names that a pattern means: a name, a glob over names (`stage1.*`), or a class (`Conv2d`).

        Case matters; another name of a shared module means its first one. Empty if nothing matches.
        """
        if pattern in self.nodes:
            return [pattern]
        for node in self.nodes.values():
            if pattern in node.aliases:
                return [node.name]
        return [
            node.name
            for node in self.nodes.values()
            if fnmatch.fnmatchcase(node.name, pattern) or node.cls == pattern
        ]

    def receptive_field(
        self, layer: str, position: tuple[int, ...], *, call: int = 1
    ) -> tuple[ReceptiveField, ...]:
        """The part of the model's inputs that one value of a layer is computed from, in theory.

        Args:
            layer: its name.
            position: of the value, in the axes of the layer's first output that are neither batch nor
                channel, e.g. (row, column).
            call: which call of the layer in a batch, from 1.

        Returns:
            One for each input that it depends on.

        Raises:
            ValueError: for an unknown layer, one that has not been traced yet, or a position outside of it.
        """
        if layer not in self.nodes:
            raise ValueError(f"layer={layer!r} must be the name of a layer")
        return ReceptiveFields(self, layer, call).at(tuple(position))
