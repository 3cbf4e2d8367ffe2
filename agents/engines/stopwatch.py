"""Measures what a pipeline's call does: encoding, decoding, and denoising as what is left."""

import functools
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from schemas.messages import CallTimes

ENCODE, DECODE = "encode", "decode"
_MARK: Final = "measured_by_pochade"


class Stopwatch:
    """The times of one call at a time; watches pipelines by standing before their methods."""

    def __init__(self) -> None:
        self._ms = {ENCODE: 0.0, DECODE: 0.0}
        self._began = time.perf_counter()
        self._load_ms = 0.0

    def watch(self, pipeline: Any) -> Any:
        """Measure a pipeline's encoding of prompts and images and its decoding from now on; return it."""
        vae = getattr(pipeline, "vae", None)
        for owner, name, kind in (
            (pipeline, "encode_prompt", ENCODE),
            (vae, "encode", ENCODE),
            (vae, "decode", DECODE),
        ):
            method = getattr(owner, name, None)
            if method is not None and not hasattr(method, _MARK):
                setattr(owner, name, self._measured(owner, method, kind, _waits_for(pipeline)))
        return pipeline

    def begin(self) -> None:
        """A call begins, with the loading of what it needs."""
        self._ms = dict.fromkeys(self._ms, 0.0)
        self._began, self._load_ms = time.perf_counter(), 0.0

    def loaded(self) -> None:
        """All that the call needs is there."""
        self._load_ms = _since_ms(self._began)

    def end(self) -> CallTimes:
        """Return the times of the call, which has its images."""
        rest_ms = _since_ms(self._began) - self._load_ms - sum(self._ms.values())
        times = (self._load_ms, self._ms[ENCODE], max(0.0, rest_ms), self._ms[DECODE])
        load, encode, denoise, decode = (round(ms, 3) for ms in times)
        return CallTimes(load_ms=load, encode_ms=encode, denoise_ms=denoise, decode_ms=decode)

    def _measured(self, owner: Any, method: Any, kind: str, wait: Callable[[], object]) -> Callable[..., Any]:
        """Return a timed method for `owner`, in place of its class's. `owner` can still be freed: it is held weakly."""
        function, of = method.__func__, weakref.ref(owner)

        @functools.wraps(function)
        def measured(*args: Any, **more: Any) -> Any:
            wait()  # what was asked of a device before is not this method's
            began = time.perf_counter()
            try:
                return function(of(), *args, **more)
            finally:
                wait()
                self._ms[kind] += _since_ms(began)

        setattr(measured, _MARK, True)
        return measured


def _waits_for(pipeline: Any) -> Callable[[], object]:
    """A device computes while its caller goes on: what waits for it; nothing on a CPU."""
    device = getattr(pipeline, "_execution_device", None)
    return partial(torch.cuda.synchronize, device) if getattr(device, "type", "cpu") == "cuda" else lambda: None


def _since_ms(began: float) -> float:
    return 1000 * (time.perf_counter() - began)
