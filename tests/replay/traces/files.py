"""Trace files for the tests."""

import gzip
import json
import pathlib
from typing import Any

from replay.traces import Asked, Trace, read
from tests.paths import SHARED

DATA = SHARED / "data"
LENIENT = Asked(is_lenient=True)
GENTD26 = (
    "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,"
    "num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora"
)
UNTIMED = "exec_time_seconds,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,lora_args"


def a_file(folder: pathlib.Path, content: str | bytes, *, is_packed: bool = False) -> pathlib.Path:
    """A file of that content, whose name says nothing."""
    data = content.encode() if isinstance(content, str) else content
    path = folder / "given"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    return path


def jsonl(*requests: dict[str, Any]) -> str:
    """A JSON line each."""
    return "".join(json.dumps(request) + "\n" for request in requests)


def arrivals(*times: float) -> str:
    """An arrival CSV."""
    return "\n".join(["arrival_ms", *map(str, times)]) + "\n"


def request(at: str, images: str = "1.0", steps: str = "30.0", model: str = "M0001", loras: str = "0") -> str:
    """A line of GenTD26's timed file."""
    return f"{at},TXT_2_IMG,SUCCEED,32.0,G0000,63.0,26.0,{images},{steps},{model},{loras}"


def gentd26(*lines: str) -> str:
    """Its timed file."""
    return "\n".join([GENTD26, *lines]) + "\n"


def read_in(folder: pathlib.Path, content: str | bytes, asked: Asked = Asked()) -> Trace:  # noqa: B008 - frozen
    """The trace of a file of that content."""
    return read(a_file(folder, content), asked)
