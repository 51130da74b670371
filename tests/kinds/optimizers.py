"""What may happen between the gradients and the weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

from tests.kinds.program import Program, Walk, classify, images, kind, mlp


@kind
def clipping_by_value_after_clipping_by_norm() -> Program:
    model = mlp()
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
    norms: list[torch.Tensor] = []

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1]) * 100
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model[1].parameters(), 1.0, foreach=False))
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        for parameter in model[3].parameters():
            assert parameter.grad is not None
            parameter.grad.sub_(parameter.grad.mean()).add_(torch.randn_like(parameter.grad), alpha=0.01)
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train, also=lambda: norms)


@kind
def gradient_scaler_whose_first_step_overflows() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2, backoff_factor=2.0**-100)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1])
        scaler.scale(loss * 4).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return Program(model, [optimizer], images(), train, also=scaler.state_dict)


@kind
def gradient_scaler_with_two_optimizers_and_half_activations() -> Program:
    model = nn.ModuleDict({"body": nn.Linear(64, 16), "head": nn.Linear(16, 5)})
    for_body = torch.optim.SGD(model["body"].parameters(), 0.1)
    for_head = torch.optim.Adam(model["head"].parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)

    def train(item: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model["head"](model["body"](item[0].flatten(1)).relu()), item[1])
        scaler.scale(loss).backward()
        for optimizer in (for_body, for_head):
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
        return loss.detach()

    return Program(model, [for_body, for_head], images(), train, also=scaler.state_dict)


class SignedMomentum(torch.optim.Optimizer):
    """An optimizer of the user's own: the sign of an interpolated momentum, with decoupled decay."""

    def __init__(self, parameters: Iterable[Any], lr: float = 0.01, betas: tuple[float, float] = (0.9, 0.99)):
        super().__init__(parameters, {"lr": lr, "betas": betas, "decay": 0.01, "note": "mine"})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["slow"], state["steps"] = torch.zeros_like(p), 0
                state["steps"] += 1
                p.mul_(1 - group["lr"] * group["decay"])
                fast = state["slow"].lerp(p.grad, 1 - group["betas"][0])
                p.add_(fast.sign_(), alpha=-group["lr"])
                state["slow"].lerp_(p.grad, 1 - group["betas"][1])
        return loss


@kind
def an_optimizer_of_the_users_own() -> Program:
    model = mlp()
    return classify(model, SignedMomentum(model.parameters()))


@kind
def closures_given_to_a_plain_optimizer() -> Program:
    model = mlp()
    optimizer = SignedMomentum(
        [{"params": model[1].parameters(), "lr": 0.02}, {"params": model[3].parameters()}]
    )

    def train(item: Any) -> torch.Tensor:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(item[0]), item[1])
            loss.backward()
            return loss.detach()

        return torch.as_tensor(optimizer.step(closure))

    return Program(model, [optimizer], images(), train)


@kind
def sharpness_aware_steps() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)

    def train(item: Any) -> torch.Tensor:
        """Climbs to the worst point nearby, takes the gradient there, and steps from where it was."""
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            climbs = [p.grad * (0.05 / norm) for p in model.parameters()]
            for p, climb in zip(model.parameters(), climbs, strict=True):
                p.add_(climb)
        optimizer.zero_grad()
        F.cross_entropy(model(item[0]), item[1]).backward()
        with torch.no_grad():
            for p, climb in zip(model.parameters(), climbs, strict=True):
                p.sub_(climb)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def averaged_weights_and_batchnorm_update() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    batches = images()

    def loop(walk: Walk) -> list[torch.Tensor]:
        losses = []
        for _ in walk.epochs(2):
            for x, y in walk.batches(batches, phase="train"):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                averaged.update_parameters(model)
                losses.append(loss.detach())
            scheduler.step()
            update_bn(batches, averaged)
            averaged.eval()
            with torch.no_grad():
                for x, y in walk.batches(batches[:2], phase="average"):
                    losses.append(F.cross_entropy(averaged(x), y))
            averaged.train()
        return losses

    program = Program(model, [optimizer], batches, lambda item: item, schedulers=[scheduler], loop=loop)
    program.also = averaged.state_dict
    return program


@kind
def layers_unfrozen_while_training() -> Program:
    model = mlp()
    model[1].requires_grad_(False)
    optimizer = torch.optim.Adam(model[3].parameters(), lr=0.01)
    program = classify(model, optimizer)
    step, count = program.train, 0

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        if count == 3:
            model[1].requires_grad_(True)
            optimizer.add_param_group({"params": model[1].parameters(), "lr": 0.001})
        if count == 6:  # and one of them frozen again
            model[1].bias.requires_grad_(False)
            model[1].bias.grad = None
        return step(item)

    program.train = train
    return program


@kind
def a_schedule_free_optimizer() -> Program:
    model = mlp()

    class ScheduleFree(torch.optim.Optimizer):
        """Trains at a point between its iterate and the average; `evaluate` puts the average in."""

        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1, "beta": 0.9, "k": 0})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                group["k"] += 1
                for p in group["params"]:
                    state = self.state[p]
                    z = state.setdefault("z", p.clone())
                    x = state.setdefault("x", p.clone())
                    z.sub_(p.grad, alpha=group["lr"])
                    x.lerp_(z, 1 / group["k"])
                    p.copy_(z.lerp(x, group["beta"]))

        @torch.no_grad()
        def evaluate(self, on: bool) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    z, x = self.state[p]["z"], self.state[p]["x"]
                    p.copy_(x if on else z.lerp(x, group["beta"]))

    optimizer = ScheduleFree(model.parameters())
    program = classify(model, optimizer)
    assert program.validate is not None
    plain = program.validate

    def validate(item: Any) -> torch.Tensor:
        optimizer.evaluate(True)
        loss = plain(item)
        optimizer.evaluate(False)
        return loss

    program.validate = validate
    return program


@kind
def foreach_and_fused_optimizers() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.PReLU(), nn.Linear(16, 16), nn.Linear(16, 5))
    optimizers = [
        torch.optim.AdamW(model[1].parameters(), lr=0.01, fused=True, amsgrad=True),
        torch.optim.Adagrad(model[2].parameters(), lr=0.01, foreach=True),
        torch.optim.SGD(model[3].parameters(), lr=torch.tensor(0.05), momentum=0.9, fused=True),
        torch.optim.Adam(model[4].parameters(), lr=0.01, foreach=True, maximize=False),
    ]

    def train(item: Any) -> torch.Tensor:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        for optimizer in reversed(optimizers):
            optimizer.step()
        return loss.detach()

    return Program(model, list(optimizers), images(), train)


@kind
def optimizer_steps_inside_backward() -> Program:
    model = mlp()
    optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def train(item: Any) -> torch.Tensor:
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        return loss.detach()

    return Program(model, list(optimizers.values()), images(), train)


@kind
def weights_updated_by_hand() -> Program:
    model = mlp()

    def train(item: Any) -> torch.Tensor:
        loss = F.cross_entropy(model(item[0]), item[1])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, gradient in zip(model.parameters(), gradients, strict=True):
                p.sub_(gradient, alpha=0.05)
            model[1].weight.data = model[1].weight.data.clamp(-0.3, 0.3)
            model[3].weight.data.renorm_(2, 0, 1.0)
        return loss.detach()

    return Program(model, [], images(), train)


@kind
def plateau_schedule_and_best_weights_restored() -> Program:
    program = classify(mlp())
    model, (optimizer,) = program.model, program.optimizers
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    assert program.validate is not None
    plain_train, plain_validate = program.train, program.validate
    best: dict[str, Any] = {"loss": float("inf"), "state": {}}

    def train(item: Any) -> torch.Tensor:
        loss = plain_train(item)
        warmup.step()
        return loss

    def validate(item: Any) -> torch.Tensor:
        loss = plain_validate(item)
        plateau.step(loss)
        if loss.item() < best["loss"]:
            best.update(loss=loss.item(), state=copy.deepcopy(model.state_dict()))
        else:
            model.load_state_dict(best["state"])
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        return loss

    program.train, program.validate, program.schedulers = train, validate, [plateau, warmup]
    program.also = lambda: best
    return program


@kind
def evolution_without_gradients() -> Program:
    model = mlp().requires_grad_(False)

    @torch.no_grad()
    def train(item: Any) -> torch.Tensor:
        """Estimates the gradient from pairs of perturbed models."""
        flat = nn.utils.parameters_to_vector(model.parameters())
        estimate = torch.zeros_like(flat)
        for _ in range(3):
            noise = torch.randn_like(flat) * 0.05
            both = []
            for sign in (1, -1):
                nn.utils.vector_to_parameters(flat + sign * noise, model.parameters())
                both.append(F.cross_entropy(model(item[0]), item[1]))
            estimate += (both[0] - both[1]) * noise
        nn.utils.vector_to_parameters(flat - 5 * estimate, model.parameters())
        return estimate.norm()

    return Program(model, [], images(3), train)
