"""Which epochs are kept whole, and what a rewind leaves."""

from __future__ import annotations

import torch

from nansense_widgets import BatchPosition
from nansense_widgets.stats.bucket import Shared
from nansense_widgets.stats.collect import StatsCollector


def epoch_of(collector: StatsCollector, epoch: int) -> None:
    torch.manual_seed(epoch)
    for phase in ("train", "val"):
        for batch in range(3):
            position = BatchPosition(phase, epoch, batch)
            tensor = torch.randn(4, 5)
            collector.bucket("fc", position, 1).add(Shared(tensor), batch, gradient=False)
            collector.parameter_bucket(position, "fc.weight").stepped(batch, 1.0 + epoch, 0.1)


def whole(collector: StatsCollector) -> set[int]:
    stats = collector.snapshot().stats
    return {epoch for (_, _, epoch), bucket in stats.items() if bucket.activations.hist is not None}


def test_a_rewind_drops_exactly_what_comes_again() -> None:
    collector, straight = StatsCollector(), StatsCollector()
    for epoch in range(5):
        epoch_of(collector, epoch)
        epoch_of(straight, epoch)
    before = collector.snapshot()
    assert whole(collector) == {3, 4}
    collector.rewind_to_epoch(3)
    left = collector.snapshot()
    assert set(left.stats) == {key for key in before.stats if key[2] < 3}
    assert set(left.parameters) == {key for key in before.parameters if key[2] < 3}
    epoch_of(collector, 3)
    assert whole(collector) == {3}  # the histogram of epoch 2 had gone when epoch 4 began
    epoch_of(collector, 4)
    again, expected = collector.snapshot(), straight.snapshot()
    assert set(again.stats) == set(expected.stats)
    for key, bucket in expected.stats.items():
        found = again.stats[key]
        assert (found.activations.n, found.activations.mean, found.activations.variance, found.batches) == (
            bucket.activations.n,
            bucket.activations.mean,
            bucket.activations.variance,
            bucket.batches,
        )
    for key, parameter in expected.parameters.items():
        assert again.parameters[key].gradient_norm.mean == parameter.gradient_norm.mean
        assert list(again.parameters[key].gradient_norm.values) == list(parameter.gradient_norm.values)


def test_a_snapshot_of_some_layers_holds_only_theirs() -> None:
    collector = StatsCollector()
    epoch_of(collector, 0)
    assert collector.snapshot({"fc"}).stats.keys() == collector.snapshot().stats.keys()
    assert not collector.snapshot({"other"}).stats
    assert not collector.snapshot({"other"}).parameters
