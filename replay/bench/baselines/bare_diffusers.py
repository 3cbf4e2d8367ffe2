"""The baseline of the worker: a plain loop around `DiffusionPipeline`, in a process of its own.

`python -m replay.bench.baselines.bare_diffusers ORDER.json`: loads the model, then for each line on standard input, a
number, generates that many images one after another and answers with one line, the seconds they took.
"""

import importlib
import json
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import torch
from diffusers import DiffusionPipeline
from diffusers.utils import logging as diffusers_logging


def main(order_path: str) -> None:
    """Serve orders until standard input ends. The order: core, model, scheduler, settings of a call, tasks."""
    order = json.loads(pathlib.Path(order_path).read_text())
    os.sched_setaffinity(0, {order["core"]})
    torch.set_num_threads(1)
    diffusers_logging.set_verbosity_error()
    pipeline = _load(order["model"], order["scheduler"])
    tasks = cycle(order["tasks"])
    print("ready", flush=True)
    for line in sys.stdin:
        print(_generate(pipeline, order["call"], tasks, int(line)), flush=True)


def _load(model: str, scheduler: str) -> Any:
    is_cuda = torch.cuda.is_available()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = DiffusionPipeline.from_pretrained(model, torch_dtype=torch.float16 if is_cuda else torch.float32)
    if scheduler:
        pipeline.scheduler = getattr(importlib.import_module("diffusers"), scheduler).from_config(
            pipeline.scheduler.config
        )
    pipeline.to("cuda" if is_cuda else "cpu")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _generate(pipeline: Any, call: dict[str, Any], tasks: Iterator[tuple[str, int]], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        prompt, seed = next(tasks)
        pipeline(prompt=prompt, generator=torch.Generator("cpu").manual_seed(seed), **call)
    return time.perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1])
