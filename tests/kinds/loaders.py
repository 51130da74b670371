"""Where batches come from, and loops that do not go through all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from tests.kinds.program import Program, Walk, classify, images, kind, mlp


@kind
def early_break_out_of_the_loader() -> Program:
    program = classify(mlp())

    def loop(walk: Walk) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        for _ in walk.epochs(3):
            for index, item in enumerate(walk.batches(program.batches, phase="train")):
                losses.append(program.train(item))
                if index == 1:
                    break
        return losses

    program.loop = loop
    return program


@kind
def loader_without_a_length() -> Program:
    class Stream:
        """Gives fresh random batches, more or fewer each time."""

        def __iter__(self) -> Iterator[Any]:
            for _ in range(int(torch.randint(2, 5, ()))):
                yield torch.randn(4, 1, 8, 8), torch.randint(0, 5, (4,))

    program = classify(nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 5)))
    program.batches = Stream()
    return program


@kind
def iterable_dataset_with_a_collate_function() -> Program:
    class Lines(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            for index in range(7):
                yield {"text": f"line {index}", "ids": torch.randint(0, 11, (3 + index % 3,))}

    def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
        padded = nn.utils.rnn.pad_sequence([s["ids"] for s in samples], batch_first=True)
        return {"text": [s["text"] for s in samples], "ids": padded}

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.fc = nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 5)

        def forward(self, batch: dict[str, Any]) -> torch.Tensor:
            return self.fc(self.embed(batch["ids"]).mean(1))

    model = Bag()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(batch: dict[str, Any]) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), torch.tensor([len(t) % 5 for t in batch["text"]]))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], DataLoader(Lines(), batch_size=3, collate_fn=collate), train)


class Augmented(Dataset[Any]):
    """Pictures with random crops, drawn in the worker."""

    def __init__(self) -> None:
        self.pictures = torch.randn(8, 1, 10, 10)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:
        top, left = torch.randint(0, 3, (2,)).tolist()
        return self.pictures[index, :, top : top + 8, left : left + 8], index % 5


@kind
def loader_with_two_workers() -> Program:
    program = classify(mlp())
    program.batches = DataLoader(Augmented(), batch_size=2, shuffle=True, num_workers=2)
    program.validate = None
    return program


@kind
def weighted_sampler_with_a_generator_of_its_own() -> Program:
    generator = torch.Generator().manual_seed(5)
    program = classify(mlp())
    sampler = WeightedRandomSampler(torch.linspace(0.1, 1, 8).tolist(), 9, generator=generator)
    program.batches = DataLoader(Augmented(), batch_size=4, sampler=sampler)
    program.also = generator.get_state
    return program


@kind
def batches_that_raise_and_a_loop_that_goes_on() -> Program:
    program = classify(mlp())
    program.batches = [*images(2), (torch.randn(6, 1, 8, 9), torch.zeros(6)), *images(1)]

    def broken_backward(gradient: torch.Tensor) -> torch.Tensor:
        raise FloatingPointError("a check of the user's own")

    def loop(walk: Walk) -> list[torch.Tensor]:
        """Once an item is skipped in the body, once the whole epoch is given up, once backward raises."""
        losses: list[torch.Tensor] = []
        for epoch in walk.epochs(3):
            with contextlib.suppress(RuntimeError):
                for item in walk.batches(program.batches, phase="train"):
                    if epoch == 0:
                        try:
                            losses.append(program.train(item))
                        except RuntimeError:
                            losses.append(torch.tensor(-1.0))
                    elif epoch == 1:
                        losses.append(program.train(item))
                    else:
                        out = program.model(item[0][..., :8])
                        out.register_hook(broken_backward)
                        with contextlib.suppress(FloatingPointError):
                            out.sum().backward()
                        losses.append(out.detach())
        return losses

    program.loop = loop
    return program


@kind
def batches_as_context_managers() -> Program:
    program = classify(mlp())

    def loop(walk: Walk) -> list[torch.Tensor]:
        """Steps, not epochs: a validation after every third step, and a batch without a step."""
        losses = []
        endless = iter(program.batches * 3)
        for step in range(7):
            with walk.batch(phase="train"):
                losses.append(program.train(next(endless)))
            if step % 3 == 2:
                for item in program.batches[:2]:
                    with walk.batch(phase="val"):
                        assert program.validate is not None
                        losses.append(program.validate(item))
            with contextlib.suppress(ZeroDivisionError), walk.batch(phase="empty"):
                torch.rand(())
                if step == 4:
                    raise ZeroDivisionError
        return losses

    program.loop = loop
    return program


@kind
def batches_taken_by_hand_with_a_look_ahead() -> Program:
    program = classify(mlp())

    def loop(walk: Walk) -> list[torch.Tensor]:
        """`zip` with another loader that ends earlier, and `next` on the iterator itself."""
        losses = []
        for _ in walk.epochs(2):
            batches = walk.batches(program.batches, phase="train")
            losses.append(program.train(next(batches)))
            for unlabelled, item in zip(images(2), batches, strict=False):
                x = torch.cat([item[0], unlabelled[0]])
                losses.append(program.train((x, torch.cat([item[1], item[1]]))))
        return losses

    program.loop = loop
    return program


@kind
def the_model_trained_and_its_ensemble_validated_in_one_loop() -> Program:
    program = classify(mlp())
    model = program.model
    kept: list[dict[str, torch.Tensor]] = []

    def loop(walk: Walk) -> list[torch.Tensor]:
        """Cross-validation: another part of the data is left out each time, and the model begins anew."""
        losses = []
        start = {name: value.clone() for name, value in model.state_dict().items()}
        for fold in walk.epochs(3):
            model.load_state_dict(start)
            train = [item for index, item in enumerate(program.batches) if index % 3 != fold]
            for item in walk.batches(iter(train), phase="train"):
                losses.append(program.train(item))
            kept.append({name: value.clone() for name, value in model.state_dict().items()})
            for x, y in walk.batches(program.batches[fold : fold + 1], phase="held out"):
                with torch.no_grad():
                    votes = [torch.func.functional_call(model, weights, (x,)).softmax(1) for weights in kept]
                losses.append(F.nll_loss(torch.stack(votes).mean(0).log(), y))
        return losses

    program.loop = loop
    return program
