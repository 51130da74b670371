"""Recurrent networks and transformers over token ids."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, kind, language


@kind
def lstm_classifier() -> Program:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.lstm = nn.LSTM(8, 6, num_layers=2, dropout=0.2, batch_first=True)
            self.fc = nn.Linear(6, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out, (h, _) = self.lstm(self.embed(ids))
            return self.fc(out[:, -1] + h[-1])

    return language(Classifier(), lambda model, ids: F.cross_entropy(model(ids), ids[:, 0]))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 11, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "norm1": nn.LayerNorm(width),
                        "attn": Attention(width, 2),
                        "norm2": nn.LayerNorm(width),
                        "mlp": nn.Sequential(
                            nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width)
                        ),
                    }
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = x + block["attn"](block["norm1"](x))
            x = x + block["mlp"](block["norm2"](x))
        return self.head(x)


def next_token(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@kind
def gpt_with_tied_embeddings() -> Program:
    return language(GPT(), next_token)


@kind
def torch_transformer_encoder() -> Program:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.encoder = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 2
            )
            self.head = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.embed(ids)))

    return language(Encoder(), lambda model, ids: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()))


@kind
def encoder_decoder_transformer() -> Program:
    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
            self.head = nn.Linear(8, 11)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return self.head(self.transformer(src=self.embed(source), tgt=self.embed(target)))

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids, target=ids.clone()).flatten(0, 1), ids.flatten())

    return language(Seq2Seq(), loss)
