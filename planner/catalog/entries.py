"""A variant: a deployed way to paint, with its measured profile."""

import math
from dataclasses import dataclass

from planner.catalog.loading import PLAIN, Loading
from planner.catalog.validate import is_amount, require
from schemas.errors import Unknown

ENGINES = ("diffusers", "profile")
HONOURABLE = ("width", "height", "steps", "guidance", "negative_prompt")


@dataclass(frozen=True)
class Variant:
    """Model, scheduler, steps, guidance and size, with its measured profile. Refuses impossible values."""

    name: str
    engine: str  # "diffusers" | "profile"
    model: str  # folder relative to infra/, or a Hugging Face id, OWNER/NAME@REVISION; "": profile
    scheduler: str  # diffusers class name; "": the folder's own
    steps: int  # denoising steps, >= 1
    guidance: float  # classifier-free guidance scale; <= 1: none
    width: int  # px
    height: int  # px
    latency_ms: dict[int, float]  # batch size -> ms for one call; batch size 1 must be there
    load_ms: float  # until a worker that has nothing resident can paint
    quality: float | None = None  # any one scale for the whole catalog, higher is better
    honours: tuple[str, ...] = ()  # options it follows instead of its own: of HONOURABLE
    loading: Loading = PLAIN  # device, precision, files, licence

    def __post_init__(self) -> None:
        where = f"variant {self.name!r}:"
        if self.engine not in ENGINES:
            raise Unknown("engine", self.engine, ENGINES)
        require(bool(self.model) or self.engine == "profile", f"{where} model", self.model, "named", "give a folder")
        for what in ("steps", "width", "height"):
            require(getattr(self, what) >= 1, f"{where} {what}", getattr(self, what), ">= 1", "correct it")
        for what in ("guidance", "load_ms"):
            require(is_amount(getattr(self, what)), f"{where} {what}", getattr(self, what), ">= 0", "correct it")
        for option in self.honours:
            if option not in HONOURABLE:
                raise Unknown("option to honour", option, HONOURABLE)
        judged = self.quality is None or math.isfinite(self.quality)
        require(judged, f"{where} quality", self.quality, "finite", "correct or omit it")
        self._check_latencies(f"{where} latency_ms")

    def _check_latencies(self, where: str) -> None:
        require(1 in self.latency_ms, where, self.latency_ms, "measured at batch size 1", "add `1 = ...`")
        for batch, ms in self.latency_ms.items():
            require(batch >= 1, where, batch, "for batch sizes >= 1", "remove it")
            require(is_amount(ms) and ms > 0, f"{where} at {batch}", ms, "> 0", "measure again")
        times = [self.latency_ms[batch] for batch in sorted(self.latency_ms)]
        require(times == sorted(times), where, self.latency_ms, "growing with the batch size", "measure again")


def run_ms(variant: Variant, batch: int, paint_over_step: int = 0) -> float:
    """Milliseconds of one call for `batch` pictures: linear between what was measured, the last slope beyond it.

    With batch size 1 alone measured, a batch takes as long as its pictures one by one. The first `paint_over_step` of
    the variant's steps are skipped, and their share of the time.
    """
    assert batch >= 1, f"batch must be >= 1, got {batch}"
    assert 0 <= paint_over_step < variant.steps, f"{paint_over_step} of {variant.steps} steps"
    points = [(0, 0.0), *sorted(variant.latency_ms.items())]
    right = next((i for i, (size, _) in enumerate(points) if size >= batch), len(points) - 1)
    (size0, ms0), (size1, ms1) = points[right - 1], points[right]
    whole_ms = ms1 + (batch - size1) * (ms1 - ms0) / (size1 - size0)
    return whole_ms * (variant.steps - paint_over_step) / variant.steps


def throughput_rps(variant: Variant, batch: int, paint_over_step: int = 0) -> float:
    """Pictures a second of one busy worker: T(b) = b / e(b). Source: DiffServe 3.3."""
    return 1000 * batch / run_ms(variant, batch, paint_over_step)
