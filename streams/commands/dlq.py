"""`pochade dlq ls | show | redrive`: dead letters, records that could not be served."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.clock import utc
from streams.command_groups import CommandGroup
from streams.commands import listing, opening
from streams.commands.options import LISTED, SHOWN, Number, since_option
from streams.visible import counted, visible

if TYPE_CHECKING:
    from streams.operator.dead_letters import DeadLetter
    from streams.settings import Settings

COLUMNS = ("position", "at", "error", "fault", "role", "topic", "request_id", "redriven", "message")
SHOWN_BYTES = 4096
MAX_RECORDED = 100  # positions of a redrive that its record on `actions` lists
SINCE = since_option("How far back to read dead letters, such as 1h or 7d.", "7d")
CLASS = click.option(
    "--class", "error", metavar="C", help="Only dead letters of this error class, such as InvalidRecord."
)


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show and redrive dead letters: records that could not be served, kept with the reason for 30 days.

    \b
    Examples:
      pochade dlq ls --since 1h
      pochade dlq show 0@17
      pochade dlq redrive --class StoreUnavailable --rate 5 --dry-run
    """


@dlq.command()
@CLASS
@SINCE
@LISTED
@click.pass_obj
def ls(load: "Callable[[], Settings]", error: str | None, since: int, output: str) -> None:
    """List dead letters, the oldest first, with the position that `show` and `redrive` take.

    The fault is client where what was sent is wrong: invalid values, or bytes that are no request.

    \b
    Examples:
      pochade dlq ls
      pochade dlq ls --class InvalidRecord --since 1h -o jsonl | jq -r .message
    """
    from streams.operator.dead_letters import read_dead_letters

    listing.show([_row(each) for each in read_dead_letters(load(), since, error)], COLUMNS, output)


@dlq.command()
@click.argument("position", metavar="PARTITION@OFFSET")
@SHOWN
@click.pass_obj
def show(load: "Callable[[], Settings]", position: str, output: str) -> None:
    """Show the dead letter at PARTITION@OFFSET: the reason, its headers, and its raw bytes as hexadecimal and text.

    \b
    Examples:
      pochade dlq show 0@17
      pochade dlq show 0@17 -o json | jq -r .value_hex | xxd -r -p > record.bin
    """
    from schemas.topics import DLQ
    from streams.kafka.consumers import snapshot
    from streams.operator.dead_letters import dead_letter_of

    entry = dead_letter_of(snapshot.one(load(), DLQ, *_parsed(position)))
    value = entry.record.value or b""
    facts = {
        **_row(entry),
        "read_at": f"{entry.topic} {entry.partition}@{entry.offset}",
        "key": None if entry.record.key is None else entry.record.key.decode(errors="replace"),
        "headers": {name: data.decode(errors="replace") for name, data in entry.record.headers.items()},
        "bytes": None if entry.record.value is None else len(value),
    }
    if output == "json":
        whole = {"value_hex": value.hex(), "value_text": value.decode(errors="replace")}
        listing.show([{**facts, **whole}], [], "jsonl")
        return
    headers = facts.pop("headers")
    for name, fact in [*facts.items(), *((f"header {n}", h) for n, h in headers.items())]:
        click.echo(visible(f"{name:<12}  {fact}"))
    click.echo("\n" + "\n".join(listing.hex_lines(value[:SHOWN_BYTES])))
    if len(value) > SHOWN_BYTES:
        click.echo(f"... {len(value) - SHOWN_BYTES} bytes more: -o json has all")


@dlq.command()
@click.argument("positions", metavar="[PARTITION@OFFSET]...", nargs=-1)
@CLASS
@click.option(
    "--rate",
    type=Number(min=0.01),
    default=10.0,
    show_default=True,
    help="Maximum number of records to send per second.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be sent; send nothing.")
@SINCE
@LISTED
@click.pass_obj
def redrive(
    load: "Callable[[], Settings]",
    positions: tuple[str, ...],
    error: str | None,
    rate: float,
    dry_run: bool,
    since: int,
    output: str,
) -> None:
    """Redrive dead letters: send those at the positions again, else all within --since (and of --class).

    What a client sent wrongly fails again: it is left out unless a position or --class names it.

    A record is sent to the topic that it came from with its original key, value and headers; error headers are dropped,
    `pochade_redriven` counts the redrives, and on `prompts` `pochade_request_id` states its request. A request that has
    ended (mostly as FAILED) can get no second result: it is sent to `prompts` as a NEW request, ID-redrive-N, which is
    the one to watch. N is the first number that has not ended, so redriving twice while the first redrive is open makes
    one request, and nothing is sent once a redrive has COMPLETED. A prompt that cannot be read is not sent again, as it
    would fail again. Deadlines stay: a request past its deadline ends as EXPIRED. Dead letters stay on the topic. Exit
    status 1 says that a record could not be sent again.

    \b
    Examples:
      pochade dlq redrive 0@17
      pochade dlq redrive --class EngineFailed --since 2h --rate 5
      pochade dlq redrive --dry-run -o jsonl
    """
    from streams.operator import dead_letters

    settings = load()
    found = _at_positions(dead_letters.read_dead_letters(settings, since, error), positions)
    clients = [] if positions or error else [each for each in found if each.is_clients]
    rows = _redriven(settings, [each for each in found if each not in clients], rate, dry_run=dry_run)
    refused = len([row for row in rows if row.get("refused")])
    listing.show(rows, ("position", "sent", "to", "request_id", "reason"), output)
    done, said = len([row for row in rows if row["to"]]), "would be sent" if dry_run else "sent"
    skipped = len(rows) - done - refused
    left = f"; {counted(len(clients), 'error')} of clients left out, as they fail again" if clients else ""
    click.echo(f"{done} {said}, {skipped} need not be, {refused} cannot be sent again{left}", err=True)
    if refused:
        raise SystemExit(1)


def _redriven(settings: "Settings", found: "list[DeadLetter]", rate: float, *, dry_run: bool) -> list[dict[str, Any]]:
    """Send dead letters again, and note it on `actions`; return what became of each. A dry run does neither."""
    from streams.commands.recording import Note, recorded
    from streams.operator import dead_letters
    from streams.operator.dead_letters import base_id, redriven

    ended = dead_letters.ended(settings, {base_id(each.request_id) for each in found}) if found else {}
    detail = {"positions": [each.position for each in found][:MAX_RECORDED], "letters": len(found)}
    noted: contextlib.AbstractContextManager[Note] = contextlib.nullcontext(Note())
    if found and not dry_run:
        noted = recorded(settings, "redrive", counted(len(found), "dead letter"), detail)
    with noted as note, opening.producer(settings) as producer, listing.progress(found, "redriving") as shown:
        rows = list(redriven(shown, ended, None if dry_run else producer.send, rate))
        note.outcome = f"{sum(bool(row['sent']) for row in rows)} of {len(rows)} sent"
    return rows


def _at_positions(found: "list[DeadLetter]", positions: tuple[str, ...]) -> "list[DeadLetter]":
    """Return those at the positions, all where none is given. Raises PochadeError for a position without one."""
    if not positions:
        return found
    wanted = {"{}@{}".format(*_parsed(position)) for position in positions}
    chosen = [each for each in found if each.position in wanted]
    if missing := wanted - {each.position for each in chosen}:
        raise PochadeError(f"no dead letter at {', '.join(sorted(missing))} that fits --since and --class")
    return chosen


def _parsed(position: str) -> tuple[int, int]:
    partition, at, offset = position.partition("@")
    if not (at and partition.isdecimal() and offset.isdecimal()):
        raise click.BadParameter(f"{position!r} is not PARTITION@OFFSET, such as 0@17 (`pochade dlq ls` lists them)")
    return int(partition), int(offset)


def _row(entry: "DeadLetter") -> dict[str, Any]:
    return {
        "position": entry.position, "at": utc(entry.record.timestamp_ms), "error": entry.error,
        "fault": "client" if entry.is_clients else "ours", "role": entry.role,
        "topic": entry.topic, "request_id": entry.request_id, "redriven": entry.redriven, "message": entry.message,
    }  # fmt: skip
