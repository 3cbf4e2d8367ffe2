"""The prompts that judges are learned from: of a file, or those that a deployment was asked for."""

from collections.abc import Iterable
from pathlib import Path

from agents.profiling.seeded_prompts import SeededPrompts
from schemas.errors import InvalidRecord, InvalidRequest, PochadeError
from schemas.ids import draw
from schemas.record import Incoming
from schemas.topics import PROMPTS, PROMPTS_BATCH
from streams.codec.prompt_lists import prompts_in
from streams.codec.requests import decode_request
from streams.settings import Settings

NO_PROMPTS = SeededPrompts(prompts=(), seeds=())


def of_file(file: Path, most: int, seed: int) -> SeededPrompts:
    """Return the first `most` different prompts of a list. Raises PochadeError."""
    with file.open(encoding="utf-8") as lines:
        return seeded(prompts_in(lines, str(file)), most, seed)


def of_deployment(settings: Settings, most: int, seed: int) -> SeededPrompts:
    """Return the last `most` different prompts that lie on the topics of prompts. Raises PochadeError."""
    from streams.clock import now_ms
    from streams.kafka.consumers.snapshot import between

    records = sorted(between(settings, (PROMPTS, PROMPTS_BATCH), 0, now_ms()), key=lambda each: -each.timestamp_ms)
    found = seeded(_prompts(records), most, seed)
    if not found.prompts:
        raise PochadeError(f"no prompt lies on {settings.kafka.prefix}.{PROMPTS}: give --prompt-file")
    return found


def seeded(prompts: Iterable[str], most: int, seed: int) -> SeededPrompts:
    """Each prompt once, with the seed of its images, which depends on the prompt and `seed` alone."""
    different = list(dict.fromkeys(prompt for prompt in prompts if prompt.strip()))[:most]
    return SeededPrompts(
        prompts=tuple(different), seeds=tuple(int(2**31 * draw(f"{seed}/{prompt}", "noise")) for prompt in different)
    )


def _prompts(records: Iterable[Incoming]) -> Iterable[str]:
    for record in records:
        try:
            yield decode_request(record).prompt
        except (InvalidRecord, InvalidRequest):  # it has its own result, and teaches nothing
            continue
