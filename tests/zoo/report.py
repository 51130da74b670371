"""The zoo's results as text: lines for the terminal, tables for the documentation."""

from __future__ import annotations

import importlib.metadata
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.zoo.check import Outcome

__all__ = ["COLUMNS", "markdown", "put_into", "row", "summary"]

COLUMNS = (
    f"{'model':36} {'modules':>9} {'idle':>5} {'ops':>5} {'grads':>6} {'nodes':>6} {'edges':>6} {'loose':>5} "
    f"{'bare':>8} {'captured':>9} {'MB':>6}"
)


def row(outcome: Outcome, *, verbose: bool = False) -> str:
    """One model: a line, and below it what is wrong with it."""
    if outcome.not_run:
        return f"{outcome.name:36} not run: {outcome.not_run}"
    line = (
        f"{outcome.name:36} {f'{outcome.captured}/{outcome.executed}':>9} {outcome.idle:5} {outcome.ops:5} "
        f"{outcome.gradients:6} {outcome.nodes:6} {outcome.edges:6} {len(outcome.loose):5} "
        f"{outcome.bare_ms:5.0f} ms {outcome.captured_ms:6.0f} ms {outcome.bytes / 1e6:6.1f}"
    )
    lines = [line, *(f"    FAILED {failure}" for failure in outcome.failures[:8])]
    if len(outcome.failures) > 8:
        lines.append(f"    … {len(outcome.failures)} failures in all")
    if verbose:
        lines.append(f"    {outcome.note}")
        lines += [f"    no value × {n}: {reason}" for reason, n in outcome.no_value.items()]
        lines += [f"    no gradient × {n}: {reason}" for reason, n in outcome.no_gradient.items()]
        if outcome.loose:
            lines.append(f"    loose: {', '.join(outcome.loose[:8])}")
    return "\n".join(lines)


def summary(outcomes: list[Outcome]) -> str:
    """All models together."""
    ran = [o for o in outcomes if not o.not_run]
    failed = [o for o in ran if o.failures]
    lines = [
        COLUMNS,
        f"{len(ran)} models ran, {len(failed)} failed, {len(outcomes) - len(ran)} were not run",
        f"modules captured: {sum(o.captured for o in ran)} of {sum(o.executed for o in ran)} executed ones",
    ]
    lines += [f"  no value × {n}: {reason}" for reason, n in _total(o.no_value for o in ran)]
    lines += [f"  no gradient × {n}: {reason}" for reason, n in _total(o.no_gradient for o in ran)]
    if failed:
        lines.append("failed: " + ", ".join(o.name for o in failed))
    return "\n".join(lines)


def markdown(package: str, outcomes: list[Outcome]) -> str:
    """What `docs/guide/models.md` lists of one package."""
    ran = [o for o in outcomes if not o.not_run]
    skipped = [o for o in outcomes if o.not_run]
    families = list(dict.fromkeys(o.family for o in outcomes))
    lines = [
        f"{package} {_version(package)}, torch {_version('torch')}: {len(ran)} of {len(outcomes)} models.",
        "",
        "| family | models | as bare | modules executed | captured | ops captured | bare | captured |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for family in families:
        those = [o for o in ran if o.family == family]
        if not those:
            continue
        lines.append(
            f"| {family} | {len(those)} | {sum(o.ok for o in those)} | {sum(o.executed for o in those):,} "
            f"| {sum(o.captured for o in those):,} | {sum(o.ops for o in those):,} "
            f"| {statistics.median(o.bare_ms for o in those):.0f} ms "
            f"| {statistics.median(o.captured_ms for o in those):.0f} ms |"
        )
    lines += [
        "",
        "*As bare*: losses, parameters, gradients, buffers and random states are those of a run without the",
        "debugger. The last two columns are medians of one batch.",
        "",
    ]
    for family in families:
        names = [o.name for o in ran if o.family == family]
        if names:
            lines += [f"**{family[0].upper()}{family[1:]}:** {', '.join(f'`{name}`' for name in names)}.", ""]
    if failed := [o for o in ran if o.failures]:
        lines += ["| failed | how |", "|---|---|"]
        lines += [f"| `{o.name}` | {_cell(o.failures[0])} |" for o in failed] + [""]
    lines += _reasons("Layers that ran, but have no value or not all of it", (o.no_value for o in ran))
    lines += _reasons("Layers without a gradient", (o.no_gradient for o in ran))
    if skipped:
        lines += ["| not run | why |", "|---|---|"]
        lines += [f"| `{o.name}` | {_cell(o.not_run)} |" for o in skipped] + [""]
    return "\n".join(lines)


def put_into(page: Path, package: str, text: str) -> None:
    """Replace what the page has between the marks of a package."""
    begin, end = f"<!-- zoo {package}: begin -->", f"<!-- zoo {package}: end -->"
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")


def _reasons(title: str, counters: Iterable[Counter[str]]) -> list[str]:
    total = _total(counters)
    if not total:
        return []
    return [f"| {title} | layers |", "|---|---:|", *(f"| {_cell(r)} | {n:,} |" for r, n in total), ""]


def _cell(text: str) -> str:
    plain = " ".join(text.replace("|", "/").replace("<", "‹").replace(">", "›").replace("*", "∗").split())
    return plain if len(plain) <= 160 else plain[:159] + "…"


def _version(package: str) -> str:
    return importlib.metadata.version(package).split("+")[0]


def _total(counters: Iterable[Counter[str]]) -> list[tuple[str, int]]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total.most_common()
