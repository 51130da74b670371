"""Which epochs are kept whole, and what a rewind leaves."""

from __future__ import annotations

import torch

from nansense_widgets import BatchPosition, ParameterStatsSnapshot
from nansense_widgets.stats.bucket import Shared
from nansense_widgets.stats.collect import StatsCollector
from nansense_widgets.stats.epochs import MOST_EPOCHS, Epochs
from nansense_widgets.stats.steps import ParameterBucket


def epoch_of(collector: StatsCollector, epoch: int) -> None:
    torch.manual_seed(epoch)
    for phase in ("train", "val"):
        for batch in range(3):
            position = BatchPosition(phase, epoch, batch)
            tensor = torch.randn(4, 5)
            collector.bucket("fc", position, 1).add(Shared(tensor), batch, gradient=False)


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


def test_a_rewind_drops_the_steps_that_come_again() -> None:
    epochs: Epochs[ParameterBucket, ParameterStatsSnapshot] = Epochs()
    for epoch in (0, 1, 2, 3, 2, 3):
        if epoch == 2:
            epochs.drop_from(2)
            assert not epochs.has_epoch("w", 2)
        bucket = epochs.begin("w", "train", epoch, ParameterBucket)
        for batch in range(3):
            bucket.stepped(BatchPosition("train", epoch, batch), 1.0 + epoch, 0.1)
    found = epochs.snapshots()
    assert list(found) == [("w", "train", epoch) for epoch in range(4)]
    for (_, _, epoch), entry in found.items():
        assert (entry.gradient_norm.steps, entry.gradient_norm.mean) == (3, 1.0 + epoch)
        assert len(entry.gradient_norm.values) == (3 if epoch > 1 else 0)


def test_of_very_many_epochs_older_ones_are_thinned_out() -> None:
    epochs: Epochs[ParameterBucket, ParameterStatsSnapshot] = Epochs()
    for epoch in range(3 * MOST_EPOCHS):
        epochs.begin("w", "train", epoch, ParameterBucket)
    kept = sorted(epoch for _, _, epoch in epochs.snapshots())
    assert len(kept) <= MOST_EPOCHS + 2
    assert kept[0] == 0
    assert kept[-MOST_EPOCHS // 2 :] == list(range(kept[-MOST_EPOCHS // 2], 3 * MOST_EPOCHS))
    assert sum(size for _, size in epochs.sizes()) < 2.5e6


def test_where_values_first_were_not_finite_is_never_thinned_out() -> None:
    epochs: Epochs[ParameterBucket, ParameterStatsSnapshot] = Epochs(
        lambda stats: stats.gradient_norm.nonfinite > 0
    )
    for epoch in range(2 * MOST_EPOCHS):
        bucket = epochs.begin("w", "train", epoch, ParameterBucket)
        bucket.stepped(BatchPosition("train", epoch, 0), float("nan") if epoch in (7, 9) else 1.0, 0.1)
    kept = epochs.snapshots()
    assert len(kept) <= MOST_EPOCHS + 3
    assert ("w", "train", 7) in kept
    assert ("w", "train", 9) not in kept


def test_a_snapshot_of_some_layers_holds_only_theirs() -> None:
    collector = StatsCollector()
    epoch_of(collector, 0)
    assert collector.snapshot({"fc"}).stats.keys() == collector.snapshot().stats.keys()
    assert not collector.snapshot({"other"}).stats
