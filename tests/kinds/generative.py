"""Models of how data comes about, whose losses are more than one and whose samples are random."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence

from tests.kinds.program import Program, fit, images, kind


@kind
def variational_autoencoder_with_two_losses() -> Program:
    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 8))
            self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 64), nn.Sigmoid())

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            mean, spread = self.encoder(x).chunk(2, 1)
            posterior = Independent(Normal(mean, F.softplus(spread)), 1)
            return {"picture": self.decoder(posterior.rsample()), "posterior": posterior}

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    prior = Independent(Normal(torch.zeros(4), torch.ones(4)), 1)

    def train(item: Any) -> torch.Tensor:
        out = model(item[0])
        picture = F.binary_cross_entropy(out["picture"], item[0].sigmoid().flatten(1))
        divergence = kl_divergence(out["posterior"], prior).mean()
        optimizer.zero_grad()
        picture.backward(retain_graph=True)
        (0.1 * divergence).backward()
        optimizer.step()
        return torch.stack([picture, divergence]).detach()

    return Program(model, [optimizer], images(), train)


@kind
def vector_quantised_codes_kept_by_averages() -> Program:
    class Codebook(nn.Module):
        codes: torch.Tensor
        counts: torch.Tensor
        sums: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            codes = torch.randn(6, 4)
            self.register_buffer("codes", codes)
            self.register_buffer("counts", torch.ones(6))
            self.register_buffer("sums", codes.clone())

        def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            flat = z.flatten(0, -2)
            nearest = torch.cdist(flat, self.codes).argmin(1)
            if self.training:
                with torch.no_grad():
                    chosen = F.one_hot(nearest, 6).float()
                    self.counts.lerp_(chosen.sum(0), 0.1)
                    self.sums.lerp_(chosen.T @ flat, 0.1)
                    self.codes.copy_(self.sums / self.counts.clamp(min=0.1)[:, None])
                    unused = self.counts < 0.2
                    self.codes[unused] = flat[torch.randint(len(flat), (int(unused.sum()),))]
            quantised = F.embedding(nearest, self.codes).view_as(z)
            return z + (quantised - z).detach(), nearest, F.mse_loss(z, quantised.detach())

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.codebook = nn.Conv2d(1, 4, 4, stride=4), Codebook()
            self.decoder = nn.ConvTranspose2d(4, 1, 4, stride=4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            z, _nearest, commitment = self.codebook(self.encoder(x).movedim(1, -1))
            return self.decoder(z.movedim(-1, 1)), commitment

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        picture, commitment = model(item[0])
        return F.mse_loss(picture, item[0]) + 0.25 * commitment

    return fit(Quantised(), loss, images())


@kind
def diffusion_with_time_embedding_and_averaged_model() -> Program:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8))
            self.down, self.up = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 1, 3, padding=1)
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            rates = torch.exp(torch.arange(4) * (-math.log(100) / 4))
            angles = t[:, None] * rates
            shift, scale = self.time(torch.cat([angles.sin(), angles.cos()], 1)).chunk(2, 1)
            h = self.norm(self.down(x)) * (1 + scale[..., None, None]) + shift[..., None, None]
            return self.up(F.silu(h))

    model = Denoiser()
    slow = copy.deepcopy(model).requires_grad_(False)
    alphas = torch.cos(torch.linspace(0.1, 1.4, 10)).square()

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, noise, t = item[0], torch.randn_like(item[0]), torch.randint(0, 10, (len(item[0]),))
        a = alphas[t][:, None, None, None]
        if torch.rand(()) < 0.3:  # now and then without a condition
            t = torch.zeros_like(t)
        return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t.float()), noise)

    program = fit(model, loss, images(3), torch.optim.AdamW(model.parameters(), lr=0.01))
    step = program.train

    def train(item: Any) -> torch.Tensor:
        out = step(item)
        with torch.no_grad():
            for p, q in zip(slow.parameters(), model.parameters(), strict=True):
                p.lerp_(q, 0.1)
        return out

    @torch.no_grad()
    def sample(_item: Any) -> torch.Tensor:
        x = torch.randn(2, 1, 8, 8)
        for t in reversed(range(10)):
            noise = slow(x, torch.full((2,), float(t)))
            clean = ((x - (1 - alphas[t]).sqrt() * noise) / alphas[t].sqrt()).clamp(-2, 2)
            x = clean if t == 0 else alphas[t - 1].sqrt() * clean + (1 - alphas[t - 1]).sqrt() * noise
        return x

    program.train, program.validate = train, sample
    return program


@kind
def normalising_flow_with_log_determinants() -> Program:
    class Coupling(nn.Module):
        def __init__(self, flip: bool) -> None:
            super().__init__()
            self.flip, self.net = flip, nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a, b = x.chunk(2, 1)[:: -1 if self.flip else 1]
            shift, scale = self.net(a).chunk(2, 1)
            scale = torch.tanh(scale)
            b = b * scale.exp() + shift
            return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)

    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linalg.qr(torch.randn(4, 4))[0])

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x @ self.weight, torch.linalg.slogdet(self.weight)[1].expand(len(x))

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.ModuleList([Coupling(False), Mixing(), Coupling(True)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = torch.zeros(len(x))
            for step in self.steps:
                x, log_det = step(x)
                total += log_det
            return Normal(0.0, 1.0).log_prob(x).sum(1) + total

    return fit(
        Flow(),
        lambda model, x: -model(x).mean(),
        [torch.randn(6, 4) for _ in range(4)],
    )


@kind
def energy_sampled_by_langevin_steps() -> Program:
    model = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """The negative samples walk down the gradient with respect to themselves."""
        walk = torch.randn_like(x)
        for _ in range(4):
            walk = walk.detach().requires_grad_()
            (slope,) = torch.autograd.grad(model(walk).sum(), walk)
            walk = walk - 0.1 * slope + 0.05 * torch.randn_like(walk)
        real, fake = model(x), model(walk.detach())
        return real.mean() - fake.mean() + 0.1 * (real.square() + fake.square()).mean()

    return fit(model, loss, [torch.randn(6, 2) for _ in range(3)])
