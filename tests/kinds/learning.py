"""Ways of learning whose batch is more than forward, backward, step."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

from tests.kinds.program import Program, Walk, fit, images, kind, mlp, tokens


@kind
def knowledge_distillation() -> Program:
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5)).eval()
    model = nn.ModuleDict({"student": mlp(), "teacher": teacher.requires_grad_(False)})

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        with torch.no_grad():
            soft = (model["teacher"](item[0]) / 3).softmax(1)
        logits = model["student"](item[0])
        return F.kl_div((logits / 3).log_softmax(1), soft, reduction="batchmean") + F.cross_entropy(
            logits, item[1]
        )

    return fit(model, loss, images())


class Walker:
    """An environment: go left or right on a line until its end."""

    def reset(self) -> torch.Tensor:
        self.at, self.steps = 3, 0
        return self.state()

    def state(self) -> torch.Tensor:
        return F.one_hot(torch.tensor(self.at), 7).float()

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        self.at += 1 if action else -1
        self.steps += 1
        return self.state(), float(self.at == 6), self.at in (0, 6) or self.steps == 12


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(7, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, state: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        features = torch.tanh(self.body(state))
        return Categorical(logits=self.actor(features)), self.critic(features).squeeze(-1)


@kind
def actor_critic_over_whole_episodes() -> Program:
    model, world = ActorCritic(), Walker()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def train(_episode: int) -> torch.Tensor:
        """A forward every step of the episode, and one backward through all of them."""
        state, done, past = world.reset(), False, []
        while not done:
            policy, value = model(state)
            action = policy.sample()
            state, reward, done = world.step(int(action))
            past.append((policy.log_prob(action), value, policy.entropy(), reward))
        gain, losses = 0.0, []
        for log_prob, value, entropy, reward in reversed(past):
            gain = reward + 0.9 * gain
            losses.append((value - gain).square() - log_prob * (gain - value.detach()) - 0.01 * entropy)
        optimizer.zero_grad()
        total = torch.stack(losses).sum()
        total.backward()
        optimizer.step()
        return total.detach()

    return Program(model, [optimizer], range(5), train)


@kind
def proximal_policy_updates_over_a_rollout() -> Program:
    model, world = ActorCritic(), Walker()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def train(_rollout: int) -> torch.Tensor:
        """Collected without gradients, then used for three updates with old probabilities."""
        states, actions, rewards, state = [], [], [], world.reset()
        with torch.inference_mode():
            for _ in range(8):
                action = model(state)[0].sample()
                states.append(state)
                actions.append(action)
                state, reward, done = world.step(int(action))
                rewards.append(reward)
                state = world.reset() if done else state
            policy, values = model(torch.stack(states))
            advantage = torch.tensor(rewards) - values
            before = policy.log_prob(torch.stack(actions))
        seen, acted = torch.stack(states), torch.stack(actions)
        advantage, before = advantage.clone(), before.clone()
        total = torch.zeros(())
        for chosen in torch.randperm(8).chunk(3):
            policy, values = model(seen[chosen])
            ratio = (policy.log_prob(acted[chosen]) - before[chosen]).exp()
            gain = torch.min(ratio * advantage[chosen], ratio.clamp(0.8, 1.2) * advantage[chosen])
            loss = values.square().mean() - gain.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            total += loss.detach()
        return total

    return Program(model, [optimizer], range(3), train)


@kind
def q_learning_with_replay_and_a_target_network() -> Program:
    online = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 2))
    model = nn.ModuleDict({"online": online, "target": copy.deepcopy(online)})
    optimizer = torch.optim.RMSprop(online.parameters(), lr=0.01)
    world, memory = Walker(), deque[Any](maxlen=20)
    place = [world.reset()]

    def train(step: int) -> torch.Tensor:
        """Many batches have no update at all, since too little is in the memory."""
        state = place[0]
        greedy = torch.rand(()) > 0.3
        with torch.no_grad():
            action = int(model["online"](state).argmax()) if greedy else int(torch.randint(2, ()))
        after, reward, done = world.step(action)
        memory.append((state, action, reward, after, done))
        place[0] = world.reset() if done else after
        if step % 4 == 0:
            model["target"].load_state_dict(model["online"].state_dict())
        if len(memory) < 3:
            return torch.tensor(0.0)
        chosen = [memory[i] for i in torch.randint(len(memory), (3,)).tolist()]
        states, actions, rewards, nexts, dones = zip(*chosen, strict=True)
        with torch.no_grad():
            best = model["target"](torch.stack(nexts)).amax(1) * (1 - torch.tensor(dones).float())
        value = model["online"](torch.stack(states)).gather(1, torch.tensor(actions)[:, None])[:, 0]
        loss = F.huber_loss(value, torch.tensor(rewards) + 0.9 * best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], range(6), train, also=lambda: list(memory))


@kind
def meta_learning_by_functional_gradients() -> Program:
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, y = item
        parameters = dict(model.named_parameters())

        def fits(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)

        def adapted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            gradients = torch.func.grad(fits)(parameters, x[:5], y[:5])
            quick = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
            return fits(quick, x[5:], y[5:])

        return torch.func.vmap(adapted)(x, y).mean()

    x = torch.randn(4, 3, 10, 1)
    return fit(model, loss, [(task, torch.sin(3 * task)) for task in x])


@kind
def meta_learning_through_the_graph_of_the_gradient() -> Program:
    model = mlp()

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, y = item
        names = [name for name, _ in model.named_parameters()]
        weights: list[torch.Tensor] = list(model.parameters())
        for _ in range(2):
            out = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x[:3],))
            gradients = torch.autograd.grad(F.cross_entropy(out, y[:3]), weights, create_graph=True)
            weights = [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]
        out = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x[3:],))
        return F.cross_entropy(out, y[3:])

    return fit(model, loss, images())


@kind
def hidden_state_carried_over_batches() -> Program:
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.rnn, self.out = (
                nn.Embedding(11, 6),
                nn.LSTM(6, 6, batch_first=True),
                nn.Linear(6, 11),
            )

        def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
            out, state = self.rnn(self.embed(ids), state)
            return self.out(out), state

    model = Language()
    held: dict[str, Any] = {"state": None}

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        if held["state"] is not None:
            held["state"] = tuple(part.detach() for part in held["state"])
        out, held["state"] = model(ids[:, :-1], held["state"])
        return F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())

    program = fit(model, loss, tokens())
    program.also = lambda: held
    return program


@kind
def graph_kept_over_two_batches() -> Program:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.RNNCell(64, 6), nn.Linear(6, 5)

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.cell(x.flatten(1), h)
            return self.out(h), h

    model = Cell()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held: list[torch.Tensor] = []

    def train(item: Any) -> torch.Tensor:
        """Every second batch goes backward, through the graph of the batch before as well."""
        out, h = model(item[0], held.pop() if held else torch.zeros(6, 6))
        loss = F.cross_entropy(out, item[1])
        if not hasattr(model, "waiting"):
            model.waiting = loss
            held.append(h)
        else:
            optimizer.zero_grad()
            (model.waiting + loss).backward()
            optimizer.step()
            del model.waiting
            held.append(h.detach())
        return loss.detach()

    return Program(model, [optimizer], images(), train, also=lambda: held)


@kind
def adversarial_training_through_the_input() -> Program:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        x, y = item
        shift = torch.empty_like(x).uniform_(-0.1, 0.1).requires_grad_()
        for _ in range(2):
            F.cross_entropy(model(x + shift), y).backward()  # the weights' gradients pile up as well
            assert shift.grad is not None
            with torch.no_grad():
                shift += 0.05 * shift.grad.sign()
                shift.clamp_(-0.1, 0.1)
            shift.grad = None
        model.zero_grad()
        loss = F.cross_entropy(model(x + shift.detach()), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def inputs_that_are_learned() -> Program:
    model = mlp().requires_grad_(False)
    prompts = [torch.randn(2, 1, 8, 8, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.Adam(prompts, lr=0.1)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((F.cross_entropy(model(prompt), item) for prompt in prompts), torch.zeros(()))
        loss.backward()
        optimizer.step()
        return loss.detach()

    labels = [torch.randint(0, 5, (2,)) for _ in range(3)]
    return Program(model, [optimizer], labels, train, also=lambda: prompts)


@kind
def wasserstein_critic_with_several_steps() -> Program:
    model = nn.ModuleDict(
        {
            "generator": nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(True), nn.Linear(8, 64)),
            "critic": nn.Sequential(
                nn.utils.parametrizations.spectral_norm(nn.Linear(64, 8)), nn.Linear(8, 1)
            ),
        }
    )
    for_g = torch.optim.RMSprop(model["generator"].parameters(), lr=0.01)
    for_c = torch.optim.RMSprop(model["critic"].parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        real = item[0].flatten(1)
        for _ in range(2):
            with torch.no_grad():
                fake = model["generator"](torch.randn(6, 3))
            mix = torch.rand(6, 1)
            between = (mix * real + (1 - mix) * fake).requires_grad_()
            (slope,) = torch.autograd.grad(model["critic"](between).sum(), between, create_graph=True)
            loss = (model["critic"](fake) - model["critic"](real)).mean()
            loss = loss + 10 * (slope.norm(dim=1) - 1).square().mean()
            for_c.zero_grad()
            loss.backward()
            for_c.step()
        model["critic"].requires_grad_(False)
        for_g.zero_grad()
        loss = -model["critic"](model["generator"](torch.randn(6, 3))).mean()
        loss.backward()
        for_g.step()
        model["critic"].requires_grad_(True)
        return loss.detach()

    return Program(model, [for_g, for_c], images(3), train)


@kind
def domain_adaptation_by_a_reversed_gradient() -> Program:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, strength: float) -> torch.Tensor:
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return -ctx.strength * gradient, None

    class Domains(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())
            self.label, self.domain = nn.Linear(8, 5), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor, strength: float) -> tuple[torch.Tensor, torch.Tensor]:
            f = self.features(x)
            return self.label(f), self.domain(Reverse.apply(f, strength))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        label, here = model(item[0], 0.5)
        _, there = model(item[0] + 1, strength=0.5)
        domains = torch.tensor([0, 1]).repeat_interleave(len(here))
        return F.cross_entropy(label, item[1]) + F.cross_entropy(torch.cat([here, there]), domains)

    return fit(Domains(), loss, images())


@kind
def physics_informed_second_derivatives() -> Program:
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        u = model(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        at_zero = model(torch.zeros(1, 1))
        return (second + u).square().mean() + (at_zero - 1).square().sum()

    return fit(model, loss, [torch.rand(6, 1) for _ in range(4)])


@kind
def forward_mode_directional_derivatives() -> Program:
    model = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 5)).requires_grad_(False)

    def train(item: Any) -> torch.Tensor:
        """A forward gradient: the derivative along a random direction, without any backward."""
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        direction = {name: torch.randn_like(p) for name, p in parameters.items()}

        def objective(p: Any) -> torch.Tensor:
            out = torch.func.functional_call(model, p, (item[0].flatten(1),))
            return F.cross_entropy(out, item[1])

        loss, slope = torch.func.jvp(objective, (parameters,), (direction,))  # type: ignore[misc]
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.sub_(direction[name], alpha=0.01 * slope.item())
        return loss

    return Program(model, [], images(3), train)


@kind
def an_ensemble_in_one_call_by_vmap() -> Program:
    members = nn.ModuleList([mlp() for _ in range(3)])
    skeleton = copy.deepcopy(members[0]).to("meta")
    weights, _buffers = torch.func.stack_module_state(list(members))
    model = nn.Module()
    model.weights = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(w) for name, w in weights.items()})
    model.members = members

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        stacked = {name: model.weights[name.replace(".", "_")] for name in weights}

        def member(w: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(skeleton, w, (x,))

        out = torch.func.vmap(member, in_dims=(0, None))(stacked, item[0])
        return F.cross_entropy(out.flatten(0, 1), item[1].repeat(3)) + model.members[0](item[0]).mean() * 0

    return fit(model, loss, images(), torch.optim.SGD(model.weights.parameters(), lr=0.1))


@kind
def two_phases_with_two_optimizers_by_turns() -> Program:
    model = nn.ModuleDict({"body": nn.Linear(64, 8), "head": nn.Linear(8, 5)})
    for_body = torch.optim.SGD(model["body"].parameters(), lr=0.05)
    for_head = torch.optim.Adam(model["head"].parameters(), lr=0.05)
    batches = images(3)
    turns: list[tuple[str, torch.optim.Optimizer]] = [("body", for_body), ("head", for_head)]

    def loop(walk: Walk) -> list[torch.Tensor]:
        losses = []
        for _ in walk.epochs(2):
            for phase, optimizer in turns:
                for x, y in walk.batches(batches, phase=phase):
                    optimizer.zero_grad(set_to_none=phase == "body")
                    features = model["body"](x.flatten(1)).relu()
                    loss = F.cross_entropy(
                        model["head"](features if phase == "body" else features.detach()), y
                    )
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.detach())
        return losses

    return Program(model, [for_body, for_head], batches, lambda item: item, loop=loop)


@kind
def losses_weighted_by_parameters_of_their_own() -> Program:
    class Uncertain(nn.Module):
        """A loss outside the model that learns too: the weights of two tasks, and a centre for each class."""

        def __init__(self) -> None:
            super().__init__()
            self.log_variance, self.centres = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.randn(5, 8))

        def forward(self, losses: torch.Tensor, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            near = (features - self.centres[labels]).square().sum(1).mean()
            return (losses * (-self.log_variance).exp() + self.log_variance).sum() + 0.01 * near

    class Tasks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.label, self.size = nn.Linear(64, 8), nn.Linear(8, 5), nn.Linear(8, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            features = F.mish(self.body(x.flatten(1)))
            return self.label(features), self.size(features).squeeze(1), features

    model, criterion = Tasks(), Uncertain()
    optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], lr=0.01)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        label, size, features = model(item[0])
        losses = torch.stack([F.cross_entropy(label, item[1]), F.mse_loss(size, item[0].std((1, 2, 3)))])
        return criterion(losses, features, item[1])

    program = fit(model, loss, images(), optimizer)
    program.also = criterion.state_dict
    return program
