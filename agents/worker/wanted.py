"""What a worker is to paint: jobs with how each is painted, and which of them share a call."""

from collections.abc import Iterable
from typing import NamedTuple

from PIL.Image import Image

from agents.engines import PaintTask
from agents.worker.jobs import Taken
from planner.catalog.options import Settled
from planner.serving.admission import SEED_LIMIT
from planner.serving.worker import alike
from schemas.ids import paint_over_seed, seed_of
from schemas.messages import GenerateJob


class Wanted(NamedTuple):
    """A job that somebody still waits for."""

    taken: Taken
    job: GenerateJob
    how: Settled
    drafts: tuple[Image, ...] = ()  # one a picture where how.paint_over_step > 0, else none

    @property
    def attempt(self) -> int:
        """How many owners the job has met, this one included."""
        return max(self.taken.attempt, self.job.attempt)

    def on_blank(self) -> "Wanted":
        """The same, not painted over its drafts."""
        return self._replace(how=self.how._replace(paint_over_step=0), drafts=())

    def tasks(self) -> list[PaintTask]:
        """One a picture; those of n > 1 have seeds in a row, and over a draft each has another noise than the draft."""
        request = self.job.classified.request
        first = seed_of(request.request_id) if request.seed is None else request.seed
        seeds = [(first + i) % SEED_LIMIT for i in range(request.options.n)]
        over: list[Image | None] = list(self.drafts) or [None] * len(seeds)
        return [
            PaintTask(
                request_id=request.request_id,
                prompt=request.prompt,
                seed=seed if draft is None else paint_over_seed(seed, self.job.stage),
                over=draft,
            )
            for seed, draft in zip(seeds, over, strict=True)
        ]


def grouped(wanted: Iterable[Wanted]) -> list[list[Wanted]]:
    """Those that are painted alike share a call: size, steps, guidance, where they begin (design, section 2.4)."""
    return alike(wanted, lambda each: each.how._replace(n=1, overridden=()))
