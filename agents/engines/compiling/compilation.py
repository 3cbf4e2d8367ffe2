"""Compiles the denoiser of an engine while it is loaded: from what the volume keeps where that is there, else anew.

A warm-up generates a batch of two where the variant has batches, for which the compiler makes code for two to fifteen
rows; one image, where that is one row (with guidance it is two, one of them without the prompt); and sixteen rows where
the variant's largest batch has as many, for which the compiler makes code for any number from there on.
Requests wait for neither, as a worker takes jobs once its engine is loaded. Whatever fails leaves the engine as it
would be without: it generates eagerly, and says so.
"""

import contextlib
import logging
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from agents.components.opening import Keeping
from agents.components.scratch import Scratch
from agents.engines.compiling.cache import CodeCache, DamagedCode, NoRoomForCode
from agents.engines.compiling.denoiser import CompiledDenoiser, denoiser_of
from agents.engines.compiling.identity import identity_of
from planner.catalog.entries import Variant
from streams import metrics

log = logging.getLogger(__name__)

FOLDER: Final = "compiled"  # of the volume
CACHE_DIR: Final = "TORCHINDUCTOR_CACHE_DIR"
TRITON_DIR: Final = "TRITON_CACHE_DIR"  # of CUDA's kernels; unset: in CACHE_DIR, and the compiler sets it for good
FROM_CACHE: Final = "kept"  # these three are results, as metrics call them
COMPILED: Final = "compiled"
FAILED: Final = "failed"

MANY_ROWS: Final = 16  # from this batch size on, PyTorch convolves otherwise on a CPU (ATen, `ConvParams::use_mkldnn`)

Generate = Callable[[int], object]  # generates a number of images, to warm up


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """Result and cost of a warm-up."""

    seconds: float
    cpu_seconds: float  # of this process, and of compilers that it called
    result: str  # FROM_CACHE: from the volume; COMPILED: anew; FAILED: the engine generates eagerly
    compiled: int = 0  # graphs that were not among what the volume keeps
    kept_bytes: int = 0  # of the volume's file


def batches_of(variant: Variant) -> tuple[int, ...]:
    """Batch sizes that a warm-up generates, which stand for all up to the variant's largest."""
    largest, rows = max(variant.latency_ms), rows_of(variant)
    if largest == 1:
        return (1,)
    few, many = (2,) if rows > 1 else (1, 2), math.ceil(MANY_ROWS / rows)
    return (*few, many) if largest >= many else few


def rows_of(variant: Variant) -> int:
    """Rows of one image in a denoiser's batch: with guidance it is denoised without the prompt, too."""
    return 2 if variant.guidance > 1.0 else 1


class Compilation:
    """The compiled denoiser of one engine."""

    def __init__(self, variant: Variant, keeping: Keeping | None) -> None:
        """`keeping`: where the volume is; None for the defaults."""
        self._variant, self._keeping = variant, keeping or Keeping()
        self._network: torch.nn.Module | None = None  # the first one, which the warm-up runs
        self._denoiser: CompiledDenoiser | None = None

    def equip(self, pipeline: Any) -> Any:
        """Run a pipeline's denoiser as compiled code from now on, where there is code for it; return the pipeline."""
        network = denoiser_of(pipeline)
        if network is None:
            return pipeline
        if self._denoiser is None:
            self._network, self._denoiser = network, CompiledDenoiser(type(network))
        self._denoiser.attach(network)
        return pipeline

    def take_eager_steps(self) -> int:
        """Return how many steps ran eagerly since this was asked last, as no code was compiled for their inputs."""
        if self._denoiser is None:
            return 0
        steps, self._denoiser.eager_steps = self._denoiser.eager_steps, 0
        return steps

    def warm_up(self, generate: Generate) -> Warmed:
        """Compile, or read what was compiled, by generating; nothing is compiled after."""
        name, began_s, began_cpu_s = self._variant.name, time.monotonic(), _cpu_seconds()
        try:
            compiled, kept_bytes = self._warmed(generate)
        except Exception as error:  # no compiler, an operation that it does not know, a full disk
            if self._denoiser is not None:
                self._denoiser.turn_off()
            log.warning("variant %r cannot be compiled and generates eagerly: %s", name, _describe_error(error))
            metrics.FALLBACKS.labels("worker", "compile").inc()
            result, compiled, kept_bytes = FAILED, 0, 0
        else:
            result = COMPILED if compiled else FROM_CACHE
        warmed = Warmed(
            seconds=time.monotonic() - began_s, cpu_seconds=_cpu_seconds() - began_cpu_s, result=result,
            compiled=compiled, kept_bytes=kept_bytes,
        )  # fmt: skip
        log.info(
            "variant %r is loaded, its compiling: %s in %.1f s, %d graphs compiled, %d bytes in the volume",
            name, result, warmed.seconds, compiled, kept_bytes,
        )  # fmt: skip
        metrics.COMPILE_SECONDS.labels(warmed.result).observe(warmed.seconds)
        return warmed

    def _warmed(self, generate: Generate) -> tuple[int, int]:
        """Graphs that were compiled, and bytes of the volume's file after."""
        if self._network is None or self._denoiser is None:
            raise LookupError("its pipeline has neither unet nor transformer: set compile = false")
        identity = identity_of(self._network, self._variant, batches_of(self._variant))
        settings = self._keeping.settings
        volume = pathlib.Path(settings.volume or self._keeping.home / "components").resolve()
        cache = CodeCache(volume / FOLDER, settings.compiled_bytes)
        scratch = Scratch()
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(scratch.folder()))
            kept_bytes = _load(cache, identity, folder)
            if not kept_bytes:
                stack.enter_context(cache.compiling(identity))  # another may compile the same: then wait for its file
                kept_bytes = _load(cache, identity, folder)
            compiled = self._generate(generate, folder)
            if compiled:
                kept_bytes = _save(cache, identity, folder)
        return compiled, kept_bytes

    def _generate(self, generate: Generate, folder: pathlib.Path) -> int:
        assert self._denoiser is not None, "a pipeline was equipped"
        with _compiler_in(folder):
            before = _missed()
            self._denoiser.warm(is_warming=True)
            try:
                for batch in batches_of(self._variant):
                    generate(batch)
            finally:
                self._denoiser.warm(is_warming=False)
            return _missed() - before


def _load(cache: CodeCache, identity: dict[str, Any], folder: pathlib.Path) -> int:
    try:
        return cache.load(identity, folder)
    except DamagedCode as error:
        log.warning("%s", error)
        metrics.FALLBACKS.labels("worker", "compiled-code").inc()
        return 0


def _save(cache: CodeCache, identity: dict[str, Any], folder: pathlib.Path) -> int:
    try:
        return cache.save(identity, folder)
    except (NoRoomForCode, OSError) as error:
        log.warning("compiled code is not kept, and the next start compiles again: %s", error)
        metrics.FALLBACKS.labels("worker", "compiled-code").inc()
        return 0


@contextlib.contextmanager
def _compiler_in(folder: pathlib.Path) -> Iterator[None]:
    """Have the compiler read and write one folder, with no more processes than the engine has threads."""
    from torch._inductor import config
    from torch._inductor.utils import clear_caches

    before = {name: os.environ.pop(name, None) for name in (CACHE_DIR, TRITON_DIR)}
    os.environ[CACHE_DIR] = str(folder)
    try:
        clear_caches()  # what it remembers lies in the folder of another engine, which is gone
        with config.patch(compile_threads=1):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _missed() -> int:
    """Graphs that the compiler has compiled in this process, as it had none that was kept."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_miss"] + counters["inductor"]["fxgraph_cache_bypass"])


def _cpu_seconds() -> float:
    called = os.times()
    return time.process_time() + called.children_user + called.children_system


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
