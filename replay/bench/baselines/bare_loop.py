"""The bare loop's process as its caller sees it."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

from planner.catalog.entries import Variant
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest
from streams.shipped import INFRA


class BareLoop:
    """A child process that waits, at no cost, until it is asked to generate. A context manager."""

    def __init__(self, variant: Variant, requests: Sequence[GenerateRequest], core: int, folder: pathlib.Path) -> None:
        order = folder / f"{variant.name}.json"
        order.write_text(json.dumps(_order(variant, requests, core)))
        self._log = folder / f"bare-{variant.name}.log"
        with open(self._log, "w") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "replay.bench.baselines.bare_diffusers", str(order)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._answer()  # ready

    def generate(self, count: int) -> float:
        """Images a second, over `count` of them."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{count}\n")
        self._child.stdin.flush()
        return count / float(self._answer())

    def _answer(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise PochadeError(f"the bare diffusers loop ended: {self._log.read_text()[-800:]}")
        return line

    def __enter__(self) -> "BareLoop":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._child.kill()
        self._child.communicate()


def _order(variant: Variant, requests: Sequence[GenerateRequest], core: int) -> dict[str, object]:
    shipped = INFRA / variant.model
    call = {
        "num_inference_steps": variant.steps, "guidance_scale": variant.guidance,
        "width": variant.width, "height": variant.height,
    }  # fmt: skip
    return {
        "core": core,
        "model": str(shipped) if shipped.is_dir() else variant.model,
        "scheduler": variant.scheduler,
        "call": call,
        "tasks": [(request.prompt, request.seed) for request in requests],
    }


def last_core() -> int:
    """The core to pin to: the last of those that this process may use."""
    return max(os.sched_getaffinity(0))
