"""The view Inputs: the captured or pinned batch, what was painted on it, and what the model says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.values import dtype_name
from nansense_widgets.probe.answers import Answers, LossKind, answers_of
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.reading import ProbeReading
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.probe.updates import PinUpdate
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets import protocol_inputs as shapes
from nansense_widgets.widgets.shown import NOT_YET, RELEASED, ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.state import LOCKED, place_text, position_payload
from nansense_widgets.widgets.views.input_answers import Spoken, no_answer, pinned_losses
from nansense_widgets.widgets.views.input_field import shown_field
from nansense_widgets.widgets.views.input_pictures import InputPictures, ShownInput, kind_of_input
from nansense_widgets.widgets.views.kept import Kept

__all__ = ["InputsView"]

MODES = {
    "eval": "evaluation mode: no dropout, and BatchNorm by its running statistics",
    "train": "training mode: dropout, and BatchNorm by the batch",
}


@dataclass(frozen=True)
class _Read:
    """The probe at one moment, with a batch."""

    batch: InputBatch
    answers: Answers | None
    known_loss: LossKind | None
    is_pinned: bool
    updates: tuple[PinUpdate, ...]
    perturbations: tuple[Perturbation, ...]
    result: ProbeResult | None
    """Of this batch, and without an error."""
    computing: bool
    mode: ProbeMode
    error: str

    @staticmethod
    def of(probe: ProbeReading) -> _Read | None:
        batch, result = probe.batch, probe.result
        if batch is None:
            return None
        own = result is not None and result.batch is batch
        error = result.error if result is not None and own else ""
        return _Read(
            batch, probe.answers, probe.known_loss, probe.is_pinned, probe.updates, probe.perturbations,
            result if own and not error else None, probe.computing, probe.mode, error,
        )  # fmt: skip


class InputsView:
    """Read on the painter thread; of no layer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._of: tuple[InputBatch | None, int] = (None, -1)
        """Which batch what is kept is of, and which state of the architecture."""
        self._kinds = Kept(1024)
        self._painted = Kept(2)  # whole batches
        self._ends = Kept(64)
        self._large = Kept(24)
        self._small = Kept(4096)
        self._spoken: dict[str, Answers] = {}
        self._spoken_of: tuple[InputBatch | None, Answers | None, ProbeResult | None] = (None, None, None)

    def content(
        self,
        snapshot: BatchSnapshot | None,  # noqa: ARG002  the probe keeps its own batch
        shown: ShownOutput,  # noqa: ARG002
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> shapes.InputsContent:
        """The chosen input of the chosen sample, thumbnails of others, and the model's answer."""
        options: shapes.InputsOptions = want["options"]
        probe = self._source.probe
        read = _Read.of(probe)
        content = self._empty(probe)
        if read is None or not read.batch.inputs:
            content["missing"] = "" if read is None else "the model was given no tensors"
            content["missing"] = content["missing"] or self._why_none(probe)
            self._forget()
            return content
        now = (read.batch, self._source.architecture.version)  # axes may have been chosen meanwhile
        if self._of[0] is not now[0] or self._of[1] != now[1]:
            self._forget()
            self._of = now
        pictures = self._input(probe, read, options)
        one = pictures.shown
        spoken = self._says(read, one.samples)
        sample = min(max(options["sample"], 0), max(one.samples - 1, 0))
        content["of"] = ("pinned: " if read.is_pinned else "") + self._origin(read)
        content["inputs"] = [self._choice(read.batch, name) for name in read.batch.inputs]
        content["input"], content["kind"], content["other"] = one.name, one.kind, one.other
        content["samples"], content["sample"] = one.samples, sample
        content["label"] = spoken.label_text(sample)
        if one.kind != "other":
            self._draw(content, pictures, sample, options, buffers)
        self._thumbs(content, pictures, spoken, options, buffers)
        content["answer"] = spoken.answer(sample)
        content["pinned"] = self._pinned(read, one, sample)
        content["perturbations"] = [
            {"number": p.number, "text": p.text, "target": p.target, "sample": p.sample}
            for p in read.perturbations
        ]
        content["probe"] = self._state(read)
        content["field"] = shown_field(probe.field, read.batch, one.name, sample, buffers)
        return content

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """All that there is to know of an input comes with it."""
        raise NotImplementedError("this view answers no questions")

    def _empty(self, probe: ProbeReading) -> shapes.InputsContent:
        return {
            "missing": "",
            "of": "",
            "inputs": [],
            "input": "",
            "kind": "other",
            "samples": 0,
            "sample": 0,
            "label": "",
            "picture": None,
            "features": None,
            "tokens": None,
            "edited_tokens": [],
            "signal": None,
            "other": "",
            "thumbs": [],
            "first": 0,
            "order": "batch",
            "order_note": "",
            "answer": no_answer(""),
            "pinned": None,
            "perturbations": [],
            "probe": {
                "mode": probe.mode,
                "mode_note": MODES.get(probe.mode, "as the loop leaves it"),
                "computing": probe.computing,
                "error": "",
                "notes": [],
                "seconds": 0.0,
                "can_pin": self._why_none(probe),
                "moved": "",
            },
            "field": None,
        }

    def _why_none(self, probe: ProbeReading) -> str:
        if probe.why_none:
            return probe.why_none
        return RELEASED if self._source.status.word == "closed" else NOT_YET

    def _forget(self) -> None:
        for kept in (self._kinds, self._painted, self._ends, self._large, self._small):
            kept.clear()
        self._spoken.clear()
        self._of, self._spoken_of = (None, -1), (None, None, None)

    # ------------------------------------------------------------ inputs

    def _input(self, probe: ProbeReading, read: _Read, options: shapes.InputsOptions) -> InputPictures:
        names = list(read.batch.inputs)
        name = options["input"] if options["input"] in names else names[0]
        kind, axes, other, samples, paintable = self._kind(read.batch, name)
        original = read.batch.inputs[name]
        of_it = tuple(p for p in read.perturbations if not p.is_layer and p.target == name)
        if options["original"]:
            of_it = ()
        tensor = original
        if of_it:
            painted = self._painted.get((name, of_it), lambda: probe.inputs().get(name, original))
            # The core may have taken another batch meanwhile, which is drawn in a moment.
            tensor = painted if painted.shape == original.shape else original
        layer = read.batch.places[name].layer
        one = ShownInput(name, layer, tensor, original, axes, kind, other, samples, paintable, of_it)
        return InputPictures(one, self._source.input_config, self._ends)

    def _kind(self, batch: InputBatch, name: str) -> tuple[shapes.InputKind, Any, str, int, bool]:
        return self._kinds.get(name, lambda: kind_of_input(self._source, batch, name))

    def _choice(self, batch: InputBatch, name: str) -> shapes.InputChoice:
        tensor = batch.inputs[name]
        shape = [] if tensor.is_nested else list(tensor.shape)
        kind = self._kind(batch, name)[0]
        return {"name": name, "shape": shape, "dtype": dtype_name(tensor.dtype), "kind": kind}

    def _draw(
        self,
        content: shapes.InputsContent,
        pictures: InputPictures,
        sample: int,
        options: shapes.InputsOptions,
        buffers: list[bytes],
    ) -> None:
        kind = pictures.shown.kind
        if kind == "tokens":
            key = ("tokens", pictures.shown.name, sample, pictures.shown.concerning(sample))
            content["tokens"], content["other"] = self._large.get(key, lambda: pictures.tokens(sample))
            content["edited_tokens"] = pictures.edited_tokens(sample)
        elif kind == "features":
            content["features"] = pictures.features(sample, buffers)
        elif kind == "signal":
            content["signal"] = pictures.signal(sample, buffers)
        else:
            content["picture"] = self._picture(pictures, sample, options, buffers)

    def _picture(
        self, pictures: InputPictures, sample: int, options: shapes.InputsOptions, buffers: list[bytes]
    ) -> shapes.PictureShown:
        one, channel, depth, px = pictures.shown, options["channel"], options["depth"], options["px"]

        def make() -> tuple[shapes.PictureShown, bytes]:
            own: list[bytes] = []
            made = pictures.picture(sample, channel=channel, depth=depth, px=px, buffers=own)
            return made, own[0]

        key = ("picture", one.name, one.concerning(sample), sample, channel, depth, px)
        picture, pixels = self._large.get(key, make)
        buffers.append(pixels)
        return {**picture, "buffer": len(buffers) - 1}

    def _thumbs(
        self,
        content: shapes.InputsContent,
        pictures: InputPictures,
        spoken: Spoken,
        options: shapes.InputsOptions,
        buffers: list[bytes],
    ) -> None:
        one = pictures.shown
        order = list(range(one.samples))
        if options["order"] == "loss" and one.samples:
            by_loss, content["order_note"] = spoken.order()
            if by_loss:
                order, content["order"] = by_loss, "loss"
                if spoken.before is not None:
                    content["order_note"] = "in the order of the losses without the perturbations"
        first = min(max(options["first"], 0), max(len(order) - 1, 0))
        content["first"] = first
        for sample in order[first : first + max(options["count"], 0)]:
            content["thumbs"].append(self._thumb(pictures, spoken, sample, options["thumb"], buffers))

    def _thumb(
        self, pictures: InputPictures, spoken: Spoken, sample: int, px: int, buffers: list[bytes]
    ) -> shapes.Thumb:
        one = pictures.shown
        key = ("thumb", one.name, one.concerning(sample), sample, px)
        thumb: shapes.Thumb = {
            "sample": sample,
            "label": spoken.label_text(sample),
            "loss": spoken.loss(sample),
            "right": spoken.right(sample),
            "rows": 0,
            "columns": 0,
            "colour": False,
            "buffer": -1,
            "text": "",
        }
        if one.kind == "picture":
            pixels, rows, columns, colour = self._small.get(key, lambda: pictures.thumb(sample, px))
            buffers.append(pixels)
            thumb["rows"], thumb["columns"], thumb["colour"] = rows, columns, colour
            thumb["buffer"] = len(buffers) - 1
        elif one.kind != "other":
            thumb["text"] = self._small.get(key, lambda: pictures.words(sample))
        return thumb

    # ------------------------------------------------------------ what the model says

    def _says(self, read: _Read, samples: int) -> Spoken:
        result = read.result
        of = (read.batch, read.answers, result)
        if any(a is not b for a, b in zip(of, self._spoken_of, strict=True)):
            self._spoken.clear()
            self._spoken_of = of
        if result is None or not result.output:
            note = "of the batch as it ran" if read.perturbations or read.error else ""
            now = read.answers or self._answers("ran", read, None)
            return Spoken(now, None, note, samples)
        plain = self._answers("plain", read, result.output)
        note = ""
        if result.perturbations != read.perturbations or result.mode != read.mode:
            going = "being computed" if read.computing else "not computed yet"
            note = f"as before the last change, which is {going}"
        if not result.perturbed_output:
            return Spoken(plain, None, note, samples)
        return Spoken(self._answers("perturbed", read, result.perturbed_output), plain, note, samples)

    def _answers(self, which: str, read: _Read, output: Any) -> Answers:
        if which not in self._spoken:
            self._spoken[which] = answers_of(read.batch, output, read.known_loss, ran=read.answers)
        return self._spoken[which]

    def _pinned(self, read: _Read, one: ShownInput, sample: int) -> shapes.Pinned | None:
        if not read.is_pinned:
            return None
        losses, note = pinned_losses(self._source, read.updates, sample)
        position = read.batch.position
        return {
            "text": place_text(position),
            "position": position_payload(position, self._source.schedule),
            "samples": one.samples,
            "losses": losses,
            "losses_note": note,
        }

    def _origin(self, read: _Read) -> str:
        calls = f", the first of {read.batch.calls} calls of the model" if read.batch.calls > 1 else ""
        return place_text(read.batch.position) + calls

    def _state(self, read: _Read) -> shapes.ProbeState:
        result = read.result
        training = (result.training if result is not None else "") or read.batch.training
        left = f"as the loop has left it ({training})"
        note = MODES.get(read.mode, left)
        if read.mode != "unchanged" and not (read.is_pinned or read.perturbations):
            note += "; it takes effect when something is pinned or perturbed"
        closed = "this session is closed" if self._source.status.word == "closed" else ""
        return {
            "mode": read.mode,
            "mode_note": note,
            "computing": read.computing,
            "error": read.error,
            "notes": [] if result is None else list(result.notes),
            "seconds": 0.0 if result is None else result.seconds,
            "can_pin": LOCKED if self._source.locked else closed,
            "moved": "" if result is None else _moved(result),
        }


def _moved(result: ProbeResult) -> str:
    """How far the perturbations have got."""
    if not result.perturbations or not result.moved:
        return ""
    moved = [one for one in result.moved.values() if one.share > 0]
    count, total = len(moved), len(result.moved)
    layers = "layer" if total == 1 else "layers"
    beyond = ", in other samples too" if any(one.elsewhere for one in moved) else ""
    return f"{count:,} of {total:,} {layers} changed{beyond}"
