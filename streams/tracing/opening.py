"""Switches tracing on for a process, where its settings say so."""

import contextlib
from collections.abc import Iterator

from streams.settings import Settings
from streams.tracing import spans


@contextlib.contextmanager
def traced(settings: Settings) -> Iterator[None]:
    """Record spans in the block, where `tracing.endpoint` is set; the library is loaded only then."""
    if not settings.tracing.endpoint:
        yield
        return
    from streams.tracing.exporting import open_recorder

    recorder = open_recorder(settings.tracing.endpoint, settings.tracing.ratio, settings.kafka.prefix)
    spans.use(recorder)
    try:
        yield
    finally:
        spans.use(None)
        recorder.close()
