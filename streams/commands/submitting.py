"""`pochade submit --file`: many requests, checked before the first is sent."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Result, Status
from streams.commands import opening

if TYPE_CHECKING:
    from streams.operator.client import RequestClient
    from streams.settings import Settings

WINDOW = 1000  # submissions on their way at once


def submit_file(
    settings: "Settings",
    file: TextIO | None,
    left_ms: int | None,
    fields: dict[str, Any],
    timeout: float | None,
    output: str,
) -> None:
    """Send every line; ids on standard output, in order. `timeout` None: do not wait.

    Raises:
        PochadeError: bad lines, before anything is sent; or what had not ended in time.
    """
    from streams.codec.prompt_file import requests_in
    from streams.kafka.consumer import now_ms

    assert file is not None
    now = now_ms()
    defaults = fields if left_ms is None else {**fields, "deadline_ms": now + left_ms}
    try:
        requests = requests_in(
            file, file.name, now_ms=now, max_prompt_bytes=settings.requests.max_prompt_bytes, defaults=defaults
        )
    except UnicodeDecodeError as error:
        raise PochadeError(f"{file.name} is not UTF-8: {error}; convert it") from None
    if not requests:
        raise PochadeError(f"{file.name} holds no request: write one prompt a line")
    with opening.client(settings) as client:
        if timeout is not None:
            client.listen()
        _send(client, requests)
        if output == "table":
            for request in requests:
                click.echo(request.request_id)
        results = [] if timeout is None else _wait(client, requests, timeout)
    _summarise(requests, results, is_waiting=timeout is not None, output=output)


def _send(client: "RequestClient", requests: Sequence[GenerateRequest]) -> None:
    with _progress(requests, "sending") as shown:
        futures = []
        for request in shown:
            futures.append(client.submit(request))
            if len(futures) >= WINDOW:
                futures.pop(0).result(60)
        for future in futures:
            future.result(60)


def _wait(client: "RequestClient", requests: Sequence[GenerateRequest], timeout: float) -> list[Result]:
    end_s = time.monotonic() + timeout
    results = []
    with _progress(requests, "painting") as shown:
        for request in shown:
            try:
                results.append(client.wait(request.request_id, max(0.0, end_s - time.monotonic())))
            except PochadeError as error:
                left = len(requests) - len(results)
                raise PochadeError(
                    f"{left} of {len(requests)} requests have no result after {timeout:g} s, the first of them {error}"
                ) from None
    return results


def _progress(requests: Sequence[GenerateRequest], label: str) -> Any:
    stderr = click.get_text_stream("stderr")
    return click.progressbar(requests, label=label, file=stderr, hidden=not stderr.isatty())


def _summarise(
    requests: Sequence[GenerateRequest], results: Sequence[Result], *, is_waiting: bool, output: str
) -> None:
    counts = Counter(str(result.status) for result in results)
    if output == "json":
        ids = [request.request_id for request in requests]
        click.echo(json.dumps({"request_ids": ids, "ended": dict(counts) if is_waiting else None}))
    elif is_waiting:
        click.echo(", ".join(f"{number} {status}" for status, number in sorted(counts.items())), err=True)
        for result in results:
            if result.status is not Status.COMPLETED:
                click.echo(f"{result.request_id}  {result.status}  {result.reason}", err=True)
    if is_waiting and counts[Status.COMPLETED] < len(requests):
        raise SystemExit(1)
