"""Axes of layers whose class does not tell them: they come from the layers before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from nansense_widgets.capture.architecture import ArchitectureNode
from nansense_widgets.capture.axes import Axes, AxesRule, input_rule, keeps_axes, module_rule, op_rule

__all__ = ["scopes_around", "split_output", "with_axes"]


def with_axes(
    nodes: dict[str, ArchitectureNode],
    edges: set[tuple[str, str]],
    modules: Mapping[str, nn.Module],
    chosen: Mapping[str, Axes],
) -> dict[str, ArchitectureNode]:
    """The same nodes with their axes.

    Args:
        nodes: those that ran in the order of execution.
        edges: pairs of names, from producer to consumer.
        modules: the model's modules by name.
        chosen: axes that the user gave, by the name of a layer or of one of its outputs (`lstm[1][0]`).
    """
    flow = _Flow(nodes, edges, modules)
    for name, axes in chosen.items():
        flow.choose(name, axes)
    for name in nodes:
        flow.forwards(name)
    for name in reversed(nodes):
        flow.backwards(name)
    for name in nodes:  # what was learned from behind flows on to branches
        flow.forwards(name)
    flow.from_inside()
    return {name: _with_rule(node, flow.rules[name]) for name, node in nodes.items()}


class _Flow:
    def __init__(
        self,
        nodes: dict[str, ArchitectureNode],
        edges: set[tuple[str, str]],
        modules: Mapping[str, nn.Module],
    ) -> None:
        self._nodes = nodes
        self._modules = modules
        self._sources: dict[str, list[str]] = {}
        self._consumers: dict[str, list[str]] = {}
        for a, b in sorted(edges):
            self._sources.setdefault(b, []).append(a)
            self._consumers.setdefault(a, []).append(b)
        self.rules = {name: self._of_class(node) for name, node in nodes.items()}

    def choose(self, name: str, axes: Axes) -> None:
        """What the user says goes over what the class says."""
        layer, path = split_output(name, self._nodes)
        if layer in self.rules:
            rule = self.rules[layer] or AxesRule()
            outputs = self._outputs(layer)
            wanted = path or (outputs[0][0] if outputs else "")
            first = tuple(
                (where, rank, axes) for where, rank in outputs if where == wanted and fits(axes, rank)
            )
            self.rules[layer] = replace(rule, outputs=first + rule.outputs, batch_known=True)

    def forwards(self, name: str) -> None:
        """Take what is not known from a layer that feeds this one."""
        rule = self.rules[name]
        if rule is not None and rule.batch_known:
            return
        node = self._nodes[name]
        rank = self._rank(name)
        if rank is None or node.is_scope:
            return
        for source in self._sources.get(name, ()):
            known = self._axes(source, rank)
            if known is not None and (rule is not None or self._keeps(node, source)):
                self._settle(name, rank, known, self._is_known(source))
                if self._is_known(name):
                    return

    def backwards(self, name: str) -> None:
        """Take what is not known from a layer that reads this one."""
        rule = self.rules[name]
        rank = self._rank(name)
        if rank is None or (rule is not None and rule.batch_known) or self._nodes[name].is_scope:
            return
        for consumer in self._consumers.get(name, ()):
            module = self._modules.get(consumer)
            if module is not None and (ruled := input_rule([module])) is not None:
                axes = ruled.axes("", rank)
                behind = self._axes(consumer, rank + 1) if isinstance(module, nn.Embedding) else None
                if axes is not None and behind is not None and self._is_known(consumer):
                    axes = replace(
                        axes, batch=behind.batch
                    )  # ids of an embedding that feeds a time-first LSTM
                if axes is not None:
                    known = ruled.batch_known or self._is_known(consumer)
                    self._settle(name, rank, axes, known)
            elif self._keeps(self._nodes[consumer], name) and (axes := self._axes(consumer, rank)):
                self._settle(name, rank, axes, self._is_known(consumer))
            if self._is_known(name):
                return

    def from_inside(self) -> None:
        """A scope of unknown class has the axes of the last layer in it that gives its shape."""
        for name in reversed(self._nodes):
            node = self._nodes[name]
            for scope in scopes_around(node):
                around = self._nodes.get(scope)
                if around is None or self.rules[scope] is not None or not around.output_shapes:
                    continue
                shape = around.output_shapes[0]
                axes = self._axes(name, len(shape)) if shape in node.output_shapes else None
                if axes is not None:
                    self.rules[scope] = AxesRule((("*", len(shape), axes),))

    def _settle(self, name: str, rank: int, axes: Axes, known: bool) -> None:
        rule = self.rules[name]
        if rule is None:
            self.rules[name] = AxesRule((("*", rank, axes),), batch_known=known)
        elif known and not rule.batch_known:
            own = rule.axes("", rank)
            channel = axes.channel if own is None else own.channel
            mine = ("*", rank, Axes(channel, axes.batch))
            self.rules[name] = replace(rule, outputs=(mine, *rule.outputs), batch_known=True)

    def _of_class(self, node: ArchitectureNode) -> AxesRule | None:
        if node.kind == "module":
            return module_rule(self._modules[node.name])
        return op_rule(node.cls) if node.kind == "op" else None

    def _keeps(self, node: ArchitectureNode, source: str) -> bool:
        if node.kind == "op":
            same = any(shape in node.output_shapes for shape in self._nodes[source].output_shapes)
            return keeps_axes(node.cls, same_shape=same)
        if node.kind == "input" or node.is_scope:
            return False
        module = self._modules.get(node.name)
        ours = module is not None and type(module).__module__.startswith("torch.nn")
        return ours or any(shape in node.output_shapes for shape in self._nodes[source].output_shapes)

    def _outputs(self, name: str) -> list[tuple[str, int]]:
        node = self._nodes[name]
        return [(path, len(shape)) for path, shape in zip(node.output_paths, node.output_shapes, strict=True)]

    def _rank(self, name: str) -> int | None:
        shapes = self._nodes[name].output_shapes
        return len(shapes[0]) if shapes else None

    def _axes(self, name: str, rank: int) -> Axes | None:
        """Axes of a layer's output of this rank."""
        rule = self.rules[name]
        if rule is None:
            return None
        paths = [path for path, ndim in self._outputs(name) if ndim == rank]
        axes = rule.axes(paths[0], rank) if paths else None
        return None if axes is None else replace(axes, names="", chosen=False)

    def _is_known(self, name: str) -> bool:
        rule = self.rules[name]
        return rule is not None and rule.batch_known


def scopes_around(node: ArchitectureNode) -> Iterator[str]:
    """Names of the modules that a node lies in, from the inside out."""
    scope = node.parent
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]


def fits(axes: Axes, ndim: int) -> bool:
    """Whether a tensor of so many axes has these, and both are not the same."""
    used = [axis for axis in (axes.channel, axes.batch) if axis is not None]
    there = all(-ndim <= axis < ndim for axis in used)
    return there and len({axis % ndim for axis in used}) == len(used)


def split_output(name: str, nodes: Mapping[str, object]) -> tuple[str, str]:
    """A layer's name and the path of one of its outputs: `lstm[1][0]` is `lstm` and `[1][0]`."""
    layer = name
    while layer and layer not in nodes:
        layer = layer[: max(layer.rfind("["), layer.rfind("."), 0)]
    return (layer, name[len(layer) :]) if layer else (name, "")


def _with_rule(node: ArchitectureNode, rule: AxesRule | None) -> ArchitectureNode:
    if rule is None:
        return node
    axes = rule.axes(node.output_paths[0], len(node.output_shapes[0])) if node.output_shapes else None
    return replace(node, axes=axes, axes_rule=rule)
