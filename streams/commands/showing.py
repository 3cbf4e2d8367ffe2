"""Formats results for a terminal, and as plain lines where there is none."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from planner.serving.decisions import scores_in_words
from schemas.messages import GenerateRequest, Result, Stage, Status
from streams.clock import utc
from streams.operator.explain import asked_in_words, cost_in_words, how_begun, made_in_words, steps_of, why
from streams.visible import visible

COLUMNS = ("ended", "outcome", "level", "confidence", "latency", "request", "prompt")
STAGE_COLUMNS = ("stage", "level", "over", "worker", "plan", "attempt", "batch", "queue", "generate", "confidence")
COLOURS = {Status.COMPLETED: "green", Status.EXPIRED: "yellow", Status.CANCELLED: "yellow"}


def place_of(uri: str) -> str:
    """Return an image's path for a `file:` URI, else the URI."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def milliseconds(value: int | None) -> str:
    """Format milliseconds such as `812 ms` or `3.1 s`; None is a dash."""
    if value is None:
        return "-"
    return f"{value} ms" if value < 1000 else f"{value / 1000:.1f} s"


def score(confidence: float | None, threshold: float | None) -> str:
    """Format a confidence against its threshold; a dash where the image was not scored."""
    if confidence is None:
        return "-"
    known = [confidence] if threshold is None else [confidence, threshold]
    return f" {'<' if confidence < known[-1] else '≥'} ".join(scores_in_words(*known))


def _row(result: Result) -> tuple[str, ...]:
    level = (result.level or "-") + (" ↑" if result.escalated else "")
    scored = score(result.confidence, result.threshold)
    ended, latency = utc(result.ended_ms), milliseconds(result.latency_ms)
    row = ended, result.status, level, scored, latency, result.request_id, result.prompt
    return tuple(visible(cell) for cell in row)


def line(result: Result) -> str:
    """Format one result as tab-separated text."""
    return "\t".join(" ".join(cell.split()) for cell in _row(result))


def table(results: Iterable[Result], console: Console) -> None:
    """Print results as a table."""
    grid = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        is_long = name in ("prompt", "request")
        grid.add_column(name, overflow="fold", no_wrap=not is_long, min_width=12 if is_long else None)
    for result in results:
        ended, status, *others = (escape(cell) for cell in _row(result))
        grid.add_row(ended, f"[{COLOURS.get(result.status, 'red')}]{status}[/]", *others)
    console.print(grid)


def changes(result: Result) -> str:
    """Return what was done instead of what the request states, to follow a sentence; "" if nothing was."""
    return f"; overridden: {'; '.join(result.overridden)}" if result.overridden else ""


def ending(result: Result) -> None:
    """Print a result as `submit --wait` shows it; another level than that of the quality asked for comes first."""
    levels = [each for each in result.overridden if each.startswith("quality:")]
    for each in levels:
        click.echo(visible(f"overridden {each}; --model NAME asks for one level strictly"))
    others = replace(result, overridden=tuple(each for each in result.overridden if each not in levels))
    click.echo(visible(f"{result.status}  {why(result)}{changes(others)}"))
    if result.image_uri:
        click.echo(visible(f"image  {place_of(result.image_uri)}"))


def explanation(result: Result, request: GenerateRequest | None, console: Console) -> None:
    """Print what the result record says of one request, and what it asked; without a terminal as plain lines.

    `request`: None where what was asked is not known any more.
    """
    facts = {name: visible(value) for name, value in _facts(result, request).items()}
    rows = [[visible(cell) for cell in row] for row in _path(steps_of(result))]
    if not console.is_terminal:
        lines = [list(item) for item in facts.items()]
        lines += [[], list(STAGE_COLUMNS), *rows] if rows else []
        for line in [*lines, [], [visible(why(result))]]:
            click.echo("\t".join(line), file=console.file)
        return
    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column()
    grid.add_column(overflow="fold")  # never cut: what stands there is copied
    for name, value in facts.items():
        grid.add_row(f"[dim]{name}[/]", escape(value))
    console.print(grid)
    if rows:
        path = Table(*STAGE_COLUMNS, box=None, pad_edge=False)
        for row in rows:
            path.add_row(*map(escape, row))
        console.print()
        console.print(path)
    console.print(f"\n[bold]{escape(visible(why(result)))}[/]", highlight=False)


def _facts(result: Result, request: GenerateRequest | None) -> dict[str, str]:
    hardness = "unknown" if result.hardness is None else f"{result.hardness:.2f}"
    plan = "none" if result.plan_version is None else str(result.plan_version)
    facts = {
        "request": result.request_id,
        "prompt": result.prompt,
        "asked": asked_in_words(request) if request else "not known: no outcome that is kept holds it",
        "tenant": result.tenant,
        "outcome": str(result.status),
        "hardness": f"{hardness} (class {result.class_models or 'unknown'})",
        "policy": f"{result.policy or 'none'}, plan {plan}",
        "latency": f"{milliseconds(result.latency_ms)}, of which generation {milliseconds(result.generate_ms)}",
    }
    if result.components:
        facts["components"] = ", ".join(result.components)
    if result.denoise_ms is not None:
        parts = (("load", result.load_ms), ("encode", result.encode_ms), ("denoise", result.denoise_ms),
                 ("decode", result.decode_ms))  # fmt: skip
        facts["generated in"] = ", ".join(f"{name} {ms or 0:.1f} ms" for name, ms in parts)
    if cost := cost_in_words(result):
        facts["cost"] = cost
    if result.overridden:
        facts["overridden"] = "; ".join(result.overridden)
    if begun := [f"{step.level} {how}" for step in steps_of(result) if (how := how_begun(step))]:
        facts["begun"] = "; ".join(begun)
    if result.made:
        facts["made"] = made_in_words(result.made)
    if result.image_uri:
        facts["image"] = f"{place_of(result.image_uri)} ({result.width} x {result.height} px)"
    return facts


def _path(steps: Iterable[Stage]) -> Iterator[tuple[str, ...]]:
    """The cells of each stage, by STAGE_COLUMNS."""
    for step in steps:
        over = f"step {step.refine_from_step}" if step.refine_from_step else "-"  # the draft is refined from it
        numbers = (str(step.plan_version), str(step.attempt), str(step.batch))
        times = (f"{step.queue_ms} ms", f"{step.generate_ms} ms")
        scored = score(step.confidence, step.threshold)
        yield (str(step.stage), step.level, over, step.worker_id, *numbers, *times, scored)
