"""`session.memory()` names what is held, and it is bounded over epochs."""

from __future__ import annotations

import torch
from torch import nn

import nansense_widgets
from nansense_widgets import MemoryEntry, MemoryReport
from tests.driver import TIMEOUT_S, small_data, small_model


def test_what_is_held_is_named_by_kind_and_layer_and_does_not_grow_with_batches() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = nansense_widgets.start(model, optimizer=optimizer)
    assert session.memory().total == 0
    session.set_stats_scope("watched")
    session.watch("1")
    sizes: list[int] = []

    def loop() -> None:
        for _ in session.epochs(6):
            for x, y in session.batches(small_data() * 4, phase="train"):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            sizes.append(session.memory().by_kind["statistics"])

    session.request_snapshot()
    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    report = session.memory()
    snapshot = session.snapshot
    assert snapshot is not None
    kept = snapshot.activations["1"].nbytes + snapshot.activation_gradients["1"].nbytes
    assert MemoryEntry("snapshot", "1", kept) in report.entries
    assert set(report.by_kind) == {"snapshot", "statistics", "parameters", "patches", "run log", "probe"}
    assert report.total == sum(report.by_kind.values()) == sum(report.by_name.values())
    assert "statistics" in str(report)
    assert "1" in report.by_name
    # After two epochs each one more costs a few numbers, not a histogram: three of those would be 1.5 times
    # as much. Octaves that come may add a little.
    assert sizes[5] - sizes[2] < 0.6 * sizes[2]
    session.close()


def test_a_report_adds_up_and_is_ordered() -> None:
    report = MemoryReport.of([MemoryEntry("a", "x", 2), MemoryEntry("b", "y", 5), MemoryEntry("a", "x", 4)])
    assert report.entries == (MemoryEntry("a", "x", 6), MemoryEntry("b", "y", 5))
    assert report.by_kind == {"a": 6, "b": 5}
