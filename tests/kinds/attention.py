"""Attention in the ways torch has it: modules, functions, masks, fused paths, caches."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from tests.kinds.program import Program, classify, fit, kind, language, tokens


@kind
def multihead_attention_with_masks_and_weights() -> Program:
    class Weighted(nn.Module):
        """(T, B, C), keys of another width, and a loss on the attention weights themselves."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.memory = nn.Embedding(11, 8), nn.Embedding(11, 6)
            self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, kdim=6, vdim=6, add_bias_kv=True)
            self.head = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, memory = self.embed(ids).transpose(0, 1), self.memory(ids).transpose(0, 1)
            causal = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
            y, weights = self.attention(
                x, memory, memory, key_padding_mask=ids == 0, attn_mask=causal, average_attn_weights=False
            )
            return self.head(x + y), weights

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        logits, weights = model(ids)
        entropy = -(weights * (weights + 1e-9).log()).sum(-1).mean()
        return F.cross_entropy(logits.flatten(0, 1), ids.T.flatten()) + 0.1 * entropy

    return language(Weighted(), loss)


class Rotary(nn.Module):
    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16.0), 100 ** -(torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        at = slice(start, start + x.shape[-2])
        first, second = x.chunk(2, -1)
        return x * self.cos[at] + torch.cat([-second, first], -1) * self.sin[at]


class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(self.size)

    def forward(self, x: torch.Tensor, cache: list[Any] | None = None) -> torch.Tensor:
        b, t, _ = x.shape
        past = 0 if not cache else cache[-1][0].shape[2]
        q = self.rotary(self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2), past)
        k, v = self.kv(x).view(b, t, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        k = self.rotary(k, past)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[-1][0], k], 2), torch.cat([cache[-1][1], v], 2)
            cache.append((k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past == 0, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


@kind
def grouped_query_decoder_that_generates_with_a_cache() -> Program:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm = nn.Embedding(11, 16), nn.RMSNorm(16)
            self.attend = GroupedQueryAttention(16, 4, 2)
            self.gate, self.up = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
            self.down = nn.Linear(24, 16, bias=False)

        def forward(self, ids: torch.Tensor, cache: list[Any] | None = None) -> torch.Tensor:
            x = self.embed(ids)
            x = x + self.attend(self.norm(x), cache=cache)
            x = x + self.down(F.silu(self.gate(x)) * self.up(x))
            return x @ self.embed.weight.T

    model = Decoder()
    program = language(
        model,
        lambda m, ids: F.cross_entropy(m(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()),
    )

    def generate(ids: torch.Tensor) -> torch.Tensor:
        cache: list[Any] = []
        out = [ids[:, :2]]
        with torch.no_grad():
            for _ in range(4):
                probabilities = model(out[-1], cache)[:, -1].softmax(-1)
                out.append(torch.multinomial(probabilities, 1))
        return torch.cat(out, 1)

    program.validate = generate
    return program


@kind
def encoder_with_padding_whose_eval_is_fused() -> Program:
    class Padded(nn.Module):
        """In eval torch takes its fused path, on nested tensors; in training it does not."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8, padding_idx=0)
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)
            self.head = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            padding = torch.arange(ids.shape[1]) >= torch.tensor([7, 5, 6, 3])[:, None]
            y = self.encoder(self.embed(ids), src_key_padding_mask=padding)
            return self.head(y.masked_fill(padding[..., None], 0).sum(1))

    return language(Padded(), lambda model, ids: F.cross_entropy(model(ids), ids[:, 0]))


@kind
def sequence_first_decoder_with_causal_hints() -> Program:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.1, activation=F.gelu, norm_first=True)
            self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(8))
            self.head = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids.T)
            mask = nn.Transformer.generate_square_subsequent_mask(len(x))
            return self.head(self.decoder(x, x.flip(0), tgt_mask=mask, tgt_is_causal=True))

    return language(Decoder(), lambda model, ids: F.cross_entropy(model(ids).flatten(0, 1), ids.T.flatten()))


@kind
def vision_transformer_with_class_token() -> Program:
    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(1, 8, 4, stride=4)
            self.token = nn.Parameter(torch.randn(1, 1, 8) * 0.02)
            self.position = nn.Parameter(torch.randn(1, 5, 8) * 0.02)
            self.encoder = nn.TransformerEncoderLayer(
                8, 2, 16, dropout=0.0, batch_first=True, norm_first=True
            )
            self.head = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
            return self.head(self.encoder(x)[:, 0])

    model = Vision()
    return classify(model, torch.optim.AdamW(model.parameters(), lr=1e-2), label_smoothing=0.1)


@kind
def shifted_windows_with_relative_bias() -> Program:
    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)
            self.bias = nn.Parameter(torch.randn(49) * 0.02)
            at = torch.cartesian_prod(torch.arange(4), torch.arange(4))
            apart = at[:, None] - at[None] + 3
            self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

        def forward(self, x: torch.Tensor, shift: int) -> torch.Tensor:
            x = torch.roll(x, (-shift, -shift), (1, 2))
            windows = x.unflatten(1, (2, 4)).unflatten(3, (2, 4)).transpose(2, 3).reshape(-1, 16, 4)
            q, k, v = self.qkv(windows).chunk(3, -1)
            bias = self.bias[self.index]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.5)
            y = self.out(y).view(-1, 2, 2, 4, 4, 4).transpose(2, 3).reshape(x.shape)
            return torch.roll(y, (shift, shift), (1, 2))

    class Swin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.windows, self.head = nn.Linear(1, 4), Windows(), nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.permute(0, 2, 3, 1))
            for shift in (0, 2):
                x = x + self.windows(x, shift)
            return self.head(x.mean((1, 2)))

    return classify(Swin())


@kind
def linear_attention_by_einsum() -> Program:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv, self.head = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            state = torch.einsum("btd,bte->btde", k, v).cumsum(1)
            norm = torch.einsum("btd,btd->bt", q, k.cumsum(1))
            return self.head(torch.einsum("btd,btde->bte", q, state) / norm[..., None])

    return language(
        Linear(), lambda model, ids: F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    )


@kind
def bags_of_embeddings_with_weights() -> Program:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(11, 6, mode="sum", max_norm=1.0)
            self.features = nn.EmbeddingBag(11, 6, mode="max", padding_idx=0)
            self.fc = nn.Linear(12, 11)

        def forward(self, flat: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
            summed = self.bag(flat, offsets, per_sample_weights=weights)
            return self.fc(torch.cat([summed, self.features(flat, offsets)], 1))

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        flat = ids.flatten()
        offsets = torch.tensor([0, 4, 4, 20])  # the second bag is empty
        weights = torch.linspace(0, 1, len(flat))
        return F.cross_entropy(model(flat, offsets, weights), ids[:, 0])

    return fit(Bag(), loss, tokens())


@kind
def attention_scores_changed_by_a_function() -> Program:
    class Flexible(nn.Module):
        """`flex_attention`, not compiled. On the CPU it has no backward: what comes before it is frozen."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv, self.head = nn.Embedding(11, 32), nn.Linear(32, 96), nn.Linear(32, 11)
            self.register_buffer("slopes", torch.tensor([0.5, 0.25]))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                q, k, v = self.qkv(self.embed(ids)).view(*ids.shape, 3, 2, 16).permute(2, 0, 3, 1, 4)

            def nearer_counts_more(score: Any, batch: Any, head: Any, at: Any, to: Any) -> Any:
                return score - self.slopes[head] * (at - to).abs()

            out = flex_attention(q, k, v, score_mod=nearer_counts_more)
            return self.head(out.transpose(1, 2).flatten(2))

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return fit(Flexible(), loss, tokens(n=2))
