"""Alibaba's GenTD26 request files (cluster-trace-v2026-GenAI): base model, steps, images, LoRAs, and in one the time.

`lora_request_trace.csv` has `gmt_create` to the second, and how many LoRAs, not which: they are called MODEL/lora-1 and
so on, so that a base model's first LoRA is always the same. `data_trace_processed.csv` names them and has no time: it
is read with a rate. Requests that failed there are requests too. A model that was left out asks for none.
"""

import ast
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from replay.traces.formats.building import Builder
from replay.traces.formats.csv_rows import Table
from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.fields import Unfit, moment_ms, whole
from replay.traces.trace import Overrides, Row
from schemas.messages import GenerateOptions

TIME: Final = "gmt_create"
MODEL: Final = "checkpoint_model_version_id"
NEEDED: Final = {MODEL, "num_inference_steps", "num_images_per_prompt"}
MAX_LORAS: Final = 100  # a request


def is_gentd26(columns: tuple[str, ...]) -> bool:
    """Whether this is the format of a file with these columns."""
    return set(columns) >= NEEDED


def is_timed(columns: tuple[str, ...]) -> bool:
    """Whether the file has the times of its requests."""
    return TIME in columns


def read_gentd26(
    table: Table, faults: Faults, builder: Builder, most: int | None, arrivals_ms: Iterator[float] | None
) -> None:
    """Read every row, or the first `most`; `arrivals_ms`: the times where the file has none. Raises InvalidTrace."""
    for where, fields in table.rows:
        if most is not None and len(builder) >= most:
            return
        try:
            wish = Overrides(options=_options(fields))
            at_ms = moment_ms(fields[TIME]) if arrivals_ms is None else next(arrivals_ms)
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
        else:
            builder.add(Row(at_ms, wish=wish), where)


def _options(fields: dict[str, str]) -> GenerateOptions:
    steps, images, model = fields["num_inference_steps"], fields["num_images_per_prompt"], fields[MODEL]
    return GenerateOptions(
        n=whole(images, "images", 1) if images else GenerateOptions().n,
        steps=whole(steps, "steps", 1) if steps else None,
        model=model,
        adapters=_named(fields["lora_args"]) if "lora_args" in fields else _counted(fields.get("num_lora", ""), model),
    )


def _counted(text: str, model: str) -> tuple[str, ...]:
    count = whole(text, "LoRAs") if text else 0
    if count > MAX_LORAS:
        raise Unfit("too many LoRAs", f"a request has at most {MAX_LORAS} LoRAs: got {count}")
    return tuple(f"{model}/lora-{number}" for number in range(1, count + 1))


def _named(text: str) -> tuple[str, ...]:
    return tuple(name for name, _ in loras_of(text))


def loras_of(text: str) -> list[tuple[str, float]]:
    """Return the ids of the LoRAs in a field `lora_args`, each with its scale, 1 where it has none. Raises Unfit."""
    try:
        found: Any = ast.literal_eval(text) if text else []
        return [(str(lora["modelVersionId"]), float(lora.get("scale", 1.0))) for lora in islice(found, MAX_LORAS)]
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, MemoryError, RecursionError):
        raise Unfit("not LoRAs", f"lora_args is not a list of modelVersionId and scale: {quoted(text)}") from None
