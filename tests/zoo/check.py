"""Compares the three runs of a model and says what is wrong, what has no values and why."""

from __future__ import annotations

import math
import re
import traceback
from collections import Counter
from dataclasses import dataclass, field

from nansense_widgets import Architecture, BatchSnapshot
from tests.zoo.runs import Hooked, Seen, Watched, bare_run, digest, hooked_run, watched_run
from tests.zoo.subject import STEPS, Case, NotRun

__all__ = ["Outcome", "check"]

MAX_CALLS = 64
"""Calls of a layer that a snapshot keeps."""

NOT_EXECUTED = (
    "never ran",
    "did not run in this batch",
    "a container",
    "not called as a module",
    "not executed (fused)",
    "never called",
    "not captured: its parameters got gradients, but it was not called as a module",
)
"""How the debugger begins to say that a module did not execute."""


@dataclass
class Outcome:
    """What came out for one model. Counts are those of its last batch."""

    name: str
    family: str
    note: str = ""
    """How it was built and fed."""
    not_run: str = ""
    failures: list[str] = field(default_factory=list)
    executed: int = 0
    """Modules whose forward ran, by the plain hooks."""
    captured: int = 0
    """Of them, those with an activation in the snapshot, equal to what the plain hook saw."""
    idle: int = 0
    """Modules that did not execute."""
    ops: int = 0
    """Functional ops with values."""
    gradients: int = 0
    """Layers, ops too, with a gradient in their first call."""
    no_value: Counter[str] = field(default_factory=Counter)
    """Why executed layers have no value, or not all."""
    no_gradient: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    edges: int = 0
    loose: list[str] = field(default_factory=list)
    """Executed layers that no chain of edges joins to the rest."""
    bare_ms: float = 0.0
    captured_ms: float = 0.0
    bytes: int = 0

    @property
    def ok(self) -> bool:
        """Ran, and nothing is wrong."""
        return not self.failures and not self.not_run


def check(case: Case) -> Outcome:
    """Run one model three times and compare."""
    outcome = Outcome(case.name, case.family)
    try:
        case.prepare()
        bare = bare_run(case)
        hooked = hooked_run(case)
    except Exception as error:
        outcome.not_run = _sentence(error)
        return outcome
    if _different(bare.state, hooked.state):
        outcome.not_run = "two runs from the same seed differ without the debugger"
        return outcome
    if not all(map(math.isfinite, bare.losses)):
        outcome.not_run = f"its loss is not finite: {bare.losses}"
        return outcome

    def look(index: int, snapshot: BatchSnapshot, architecture: Architecture) -> None:
        _compare_batch(outcome, index, snapshot, architecture, hooked)
        if index == STEPS - 1:
            _count(outcome, snapshot, architecture, hooked)

    try:
        watched = watched_run(case, look)
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()[-3].strip()
        outcome.failures.append(f"raised under the debugger only: {_sentence(error)} ({where})")
        return outcome
    outcome.note = bare.note
    outcome.bare_ms, outcome.captured_ms = bare.seconds * 1e3, watched.seconds * 1e3
    _compare(outcome, bare.state, watched)
    return outcome


def _compare(outcome: Outcome, state: dict[str, str], watched: Watched) -> None:
    fail = outcome.failures.append
    if different := _different(state, watched.state):
        fail(f"training differs: {len(different)} of {len(state)} values, first {', '.join(different[:3])}")
    if watched.notice:
        fail(f"notice: {watched.notice}")
    if watched.captured != STEPS:
        fail(f"{watched.captured} of {STEPS} batches were captured")
    outcome.nodes, outcome.edges = len(watched.architecture.nodes), len(watched.architecture.edges)
    outcome.loose = _loose(watched.architecture)


def _compare_batch(
    outcome: Outcome, index: int, snapshot: BatchSnapshot, architecture: Architecture, hooked: Hooked
) -> None:
    nodes = architecture.nodes
    ran = {name for batch, name in hooked.calls if batch == index}
    if index == STEPS - 1 and (strangers := ran - set(snapshot.watched)):
        outcome.failures.append(f"executed, but not watched by watch('*'): {_some(strangers)}")
    for name in snapshot.watched:
        if name not in nodes or nodes[name].kind != "module":
            continue
        reason = snapshot.missing.get(name, "")
        calls = snapshot.layers.get(name, ())
        where = f"batch {index}, {name}"
        if name not in ran:
            if calls:
                outcome.failures.append(f"{where}: has values, but did not execute")
            elif not reason.startswith(NOT_EXECUTED):
                outcome.failures.append(f"{where}: did not execute, and says {reason!r}")
            continue
        seen = hooked.calls[index, name]
        if not calls:
            if all(call.value is None for call in seen):
                if not reason:
                    outcome.failures.append(f"{where}: gave no tensor, and nothing says so")
            elif not reason.startswith("not captured"):
                outcome.failures.append(f"{where}: executed, but has no values and says {reason!r}")
            continue
        tensors = [call for call in seen if call.value is not None]
        if not tensors:
            continue  # objects that pytree does not know: the debugger looks into them
        if len(calls) != min(len(tensors), MAX_CALLS):
            outcome.failures.append(f"{where}: {len(calls)} calls captured of {len(tensors)}")
            continue
        for call, expected in zip(calls, tensors, strict=False):
            if problem := _leaf_problem(snapshot, name, call.call, expected):
                outcome.failures.append(f"{where}, call {call.call}: {problem}")
    for name in snapshot.watched:
        if name not in snapshot.layers and not snapshot.missing.get(name):
            outcome.failures.append(f"batch {index}, {name}: no values and no reason")


def _leaf_problem(snapshot: BatchSnapshot, name: str, call: int, expected: Seen) -> str:
    """What is wrong with one call's tensor that a plain hook saw, or nothing.

    It need not be the first leaf of the snapshot, which also looks into objects that pytree does not know.
    """
    leaves = next(c for c in snapshot.layers[name] if c.call == call).leaves
    if all(leaf.activation is None or leaf.part for leaf in leaves):
        return "" if all(leaf.activation_reason or leaf.part for leaf in leaves) else "no value and no reason"
    digests = [None if leaf.activation is None else digest(leaf.activation) for leaf in leaves]
    if expected.value not in digests:
        cut = any(leaf.part for leaf in leaves)  # to the first samples, and says so
        return "" if cut else "the activation is not what a plain hook saw"
    leaf = leaves[digests.index(expected.value)]
    if leaf.gradient is None:
        if not leaf.gradient_reason:
            return "no gradient and no reason"
        if expected.gradient is None or leaf.gradient_reason.startswith("not captured"):
            return ""
        return f"a gradient came, but it says {leaf.gradient_reason!r}"
    if expected.gradient is None:
        return "has a gradient, but none came"
    return "" if digest(leaf.gradient) == expected.gradient else "the gradient is not what a plain hook saw"


def _count(outcome: Outcome, snapshot: BatchSnapshot, architecture: Architecture, hooked: Hooked) -> None:
    ran = {name for batch, name in hooked.calls if batch == STEPS - 1}
    modules = [name for name, node in architecture.nodes.items() if node.kind == "module"]
    outcome.executed = len(ran)
    values = snapshot.activations
    outcome.captured = sum(name in ran and name in values for name in modules)
    outcome.idle = len(modules) - len(ran & set(modules))
    outcome.ops = sum(architecture.nodes[n].kind == "op" for n in values if n in architecture.nodes)
    outcome.bytes = snapshot.cost.bytes
    for name, reason in snapshot.missing.items():
        node = architecture.nodes.get(name)
        if reason.startswith(NOT_EXECUTED):
            continue
        if name in ran or (node is not None and node.kind == "op"):
            outcome.no_value[_general(reason)] += 1
    for calls in snapshot.layers.values():
        leaf = calls[0].leaves[0]
        if leaf.activation is None or leaf.part:
            outcome.no_value[_general(leaf.activation_reason or leaf.part)] += 1
        if leaf.gradient is not None:
            outcome.gradients += 1
        elif leaf.activation is not None:
            outcome.no_gradient[_general(leaf.gradient_reason)] += 1


def _loose(architecture: Architecture) -> list[str]:
    """Executed modules outside the largest part of the graph that edges join."""
    group: dict[str, str] = {}

    def find(name: str) -> str:
        while group.setdefault(name, name) != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    for a, b in architecture.edges:
        group[find(a)] = find(b)
    leaves = [
        n.name for n in architecture.nodes.values() if n.kind == "module" and n.calls and not n.is_scope
    ]
    sizes = Counter(find(name) for name in (*group, *leaves))
    main = sizes.most_common(1)[0][0] if sizes else ""
    return [name for name in leaves if find(name) != main]


def _different(a: dict[str, str], b: dict[str, str]) -> list[str]:
    return [key for key in (*a, *(b.keys() - a.keys())) if a.get(key) != b.get(key)]


def _general(reason: str) -> str:
    """A reason without its numbers, so that equal ones count together."""
    return re.sub(r"\b\d[\d,]*", "n", re.sub(r"\bu?int\d+", "integer", reason))


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, NotRun) else f"{type(error).__name__}: {text}"[:300]


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:3])
