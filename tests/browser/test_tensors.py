"""Cards of tensors that are no plain pictures: token ids, attention weights, complex values, chosen axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.training import open_training, value_of

if TYPE_CHECKING:
    from tests.browser.lab import Lab

NET = """
import torch
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)
WORDS = "<pad> the cat sat on mat and dog ran far away".split()

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), 16)
        self.attn = nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = nn.Linear(16, len(WORDS))

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.attn(x, x, x, need_weights=False)[0]
        x = torch.fft.ifft(torch.fft.fft(x, dim=1), dim=1).real
        return self.head(x * 1.0)

model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
batches = [torch.randint(0, len(WORDS), (3, 9)) for _ in range(6)]
"""

LOOP = """
def train():
    for ids in session.batches(batches, phase="train"):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        scaler.scale(loss * 1e6).backward()
        scaler.step(optimizer)
        scaler.update(2.0**127)
"""

START = """
session = nansense_widgets.start(
    model, optimizer=optimizer, input_transform={"ids": lambda ids: [WORDS[i] for i in ids]}
)
"""


def test_tokens_attention_complex_values_and_axes(lab: Lab) -> None:
    layers = ("ids", "attn", "fft_fft", "mul")
    view = open_training(lab, net=NET, loop=LOOP, start=START, watch=layers, viewport=(1600, 1900))

    # Token ids are words with their ids; the next sample has others.
    ids = view.card("ids").get_by_role("list", name="Token ids")
    expect(ids.get_by_role("listitem")).to_have_count(9)
    first = ids.inner_text()
    words = ids.locator(".text").all_inner_texts()
    numbers = [int(text) for text in ids.locator(".id").all_inner_texts()]
    known = ["<pad>", "the", "cat", "sat", "on", "mat", "and", "dog", "ran", "far", "away"]
    assert words == [known[number] for number in numbers]
    view.button("Next sample").click()
    expect(ids).not_to_have_text(first)

    # The scaler skips every step of this loop, and the batch says so.
    expect(view.root.locator(".bnotes")).to_have_text(
        "SGD: step skipped, because GradScaler found Inf or NaN in a gradient"
    )

    # Attention weights come with the next batch, as one more output.
    options = view.button("Options of attn")
    options.focus()
    options.press("Enter")
    panel = view.root.get_by_role("dialog", name="Options of attn")
    panel.get_by_role("checkbox", name="attention weights").check()
    expect(view.code).to_have_text("session.watch_attention('attn')")
    panel.press("Escape")
    expect(panel).to_be_hidden()
    expect(options).to_be_focused()
    view.step.click()
    outputs = view.card("attn").get_by_label("Output of attn")
    expect(outputs.locator("option")).to_have_text(["[0]", ".attention_weights"])
    expect(outputs).to_have_value("1")  # who has asked for them sees them
    expect(view.card("attn").locator(".ct .mono")).to_contain_text("B heads T S")
    expect(view.tiles("attn")).to_have_count(4)
    shares = [value_of(view.point("attn", 2, 3, col, scale=6, kind="activations")) for col in range(9)]
    assert abs(sum(shares) - 1) < 1e-3  # a query's weights over all keys
    expect(view.tensor("attn", "gradients")).to_contain_text("formed beside the forward have none")

    # Complex values: one of their parts.
    view.button("Options of fft_fft").click()
    panel = view.root.get_by_role("dialog", name="Options of fft_fft")
    panel.get_by_label("Part of complex values").select_option("imaginary")
    expect(view.card("fft_fft").locator(".ct .mono")).to_contain_text("Im z")
    panel.press("Escape")

    # Axes that nothing tells can be chosen.
    view.button("Options of mul").click()
    panel = view.root.get_by_role("dialog", name="Options of mul")
    channel_axis = panel.get_by_label("Channel axis")
    expect(channel_axis).to_be_focused()
    for key in ("m", "b", "x"):  # JupyterLab's own: they must not reach the notebook
        channel_axis.press(key)
    expect(view.root).to_be_visible()
    channel_axis.select_option("1")
    expect(view.code).to_have_text("session.set_axes(layer='mul', channel=1, batch='auto')")
    expect(panel).to_contain_text("Chosen by you.")
    expect(view.card("mul").locator(".ct .mono")).to_contain_text("B C L")
    view.tab.screenshot("tensors-options")
    panel.press("Escape")
    view.tab.set_theme(dark=True)
    view.tab.screenshot("tensors-dark")
    view.tab.set_theme(dark=False)
