"""`pochade watch`: shows events and results of requests live."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError
from streams.clock import now_ms, utc
from streams.commands.options import STREAMED, Number, since_option
from streams.visible import counted, json_text, visible

if TYPE_CHECKING:
    from rich.table import Table

    from streams.operator.watch import Note, Watch
    from streams.settings import Settings

SHOWN_ROWS = 30  # maximum number of requests in the live table; those with the newest notes are shown


@click.command()
@click.argument("request_ids", metavar="[ID]...", nargs=-1)
@since_option("How far back to begin, such as 10m or 2h (default: 10m with IDs; without IDs, from now on).")
@click.option("--timeout", type=Number(min=0), default=0.0, help="Longest time to watch, in seconds; 0 sets no limit.")
@STREAMED
@click.pass_obj
def watch(
    load: "Callable[[], Settings]", request_ids: tuple[str, ...], since: int | None, timeout: float, output: str
) -> None:
    """Show events and results of requests live: of the given IDs until all have ended, else of all until Ctrl-C.

    The output is a live table on a terminal, and one tab-separated line per event elsewhere. A request that ended
    before --since is not shown: use `pochade explain ID`. Exit status 1 says that --timeout passed first.

    \b
    Examples:
      pochade watch
      pochade watch 4f7c0f0e-5a63-4a07-8a0c-2f1d0f6f1c55
      pochade watch mine-1 mine-2 --timeout 60 -o jsonl
      pochade watch --since 1h -o jsonl | jq 'select(.kind == "escalated")'
    """
    from schemas.topics import EVENTS, RESULTS
    from streams.kafka.consumers import snapshot
    from streams.operator.watch import Watch

    if since is None and request_ids:
        since = 600_000
    watched = Watch(request_ids)
    records = snapshot.live(load(), [EVENTS, RESULTS], since_ms=None if since is None else now_ms() - since)
    deadline = time.monotonic() + timeout if timeout else None
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(records), _shower(output) as show:
        for record in records:
            note = None if record is None else watched.take(record)
            if note is not None:
                show(note)
            if watched.is_finished:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise _timed_out(watched, timeout)
    if watched.unreadable:
        click.echo(f"not read: {counted(watched.unreadable, 'record')}, passed over", err=True)


def _timed_out(watched: "Watch", timeout: float) -> PochadeError:
    if not watched.waits_for:
        return PochadeError(f"the --timeout of {timeout:g} s has passed")
    return PochadeError(
        f"not ended within {timeout:g} s: {', '.join(watched.waits_for)}; they may still be in work (watch on), or "
        "have ended before --since (`pochade explain ID`)"
    )


@contextlib.contextmanager
def _shower(output: str) -> "Iterator[Callable[[Note], None]]":
    if output == "jsonl":
        yield lambda note: click.echo(json_text(asdict(note)))
    elif not click.get_text_stream("stdout").isatty():
        yield lambda note: click.echo("\t".join(" ".join(cell.split()) for cell in _cells(note)))
    else:
        from rich.live import Live

        newest: dict[str, Note] = {}
        with Live(_table(newest), refresh_per_second=8) as shown:

            def show(note: "Note") -> None:
                newest.pop(note.request_id, None)  # so that the request moves to the end
                newest[note.request_id] = note
                if len(newest) > SHOWN_ROWS:
                    del newest[next(iter(newest))]
                shown.update(_table(newest))

            yield show


def _cells(note: "Note") -> tuple[str, ...]:
    at = utc(note.at_ms, "milliseconds")
    return at, *(visible(cell) for cell in (note.request_id, note.kind, note.by, note.words()))


def _table(newest: "dict[str, Note]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False)
    for name in ("at", "request", "last", "by", "detail"):
        grid.add_column(name, overflow="fold")
    for note in newest.values():
        style = "" if note.kind != "ended" else "green" if note.detail.get("status") == "COMPLETED" else "yellow"
        grid.add_row(*(Text(cell, style=style) for cell in _cells(note)))
    return grid
