"""The architecture graph."""

from __future__ import annotations

from typing import Any

import traitlets

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets._base import SessionWidget
from nansense_widgets.widgets.probed import shown_result

__all__ = ["Graph", "GraphPart", "graph_payload"]


def graph_payload(architecture: Architecture) -> protocol.Graph:
    """An architecture as the browser draws it."""
    index = {name: i for i, name in enumerate(architecture.nodes)}
    nodes: list[protocol.GraphNode] = [
        {
            "name": node.name,
            "label": node.name.removeprefix(f"{node.parent}.") if node.parent else node.name,
            "parent": node.parent,
            "kind": node.kind,
            "cls": node.cls,
            "detail": node.hyperparameters,
            "params": node.parameter_count,
            "shapes": [list(shape) for shape in node.output_shapes],
            "calls": node.calls,
            "ran": node.ran,
            "scope": node.is_scope,
            "note": node.note,
        }
        for node in architecture.nodes.values()
    ]
    edges = sorted((index[a], index[b]) for a, b in architecture.edges if a in index and b in index)
    return {
        "version": architecture.version,
        "model": architecture.model,
        "traced": architecture.traced,
        "nodes": nodes,
        "edges": edges,
    }


class GraphPart(SessionWidget):
    """The traits of a widget that draws the graph."""

    graph: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    watched: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    moved: traitlets.Dict[str, float] = traitlets.Dict().tag(sync=True)
    """Share of each layer's values that the perturbations of a probe have changed; empty: none are shown."""

    def refresh(self) -> None:
        super().refresh()
        architecture = self._source.architecture
        if self.graph.get("version") != architecture.version:
            self.graph = dict(graph_payload(architecture))
        self.watched = list(self._source.watched_layers)
        result = shown_result(self._source)
        moved = {} if result is None else {name: one.share for name, one in result.moved.items()}
        if moved != self.moved:
            self.moved = moved


class Graph(GraphPart, front_end="graph"):
    """`session.graph()`: the data-flow graph; a click on a layer watches it."""
