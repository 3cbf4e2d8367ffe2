"""The run times of jobs: the planner's `run_ms`, cached, as it is needed several times per request."""

from collections.abc import Sequence

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions, resolved_ms
from replay.simulation.job import Job

STEP = "~k"  # of a reuse level's name: "heavy~k4" begins at step 4 with a similar past image


class Begun(dict[str, tuple[str, int]]):
    """level -> the variant that generates it, and the step at which it begins: 0 but for a reuse level."""

    def __missing__(self, level: str) -> tuple[str, int]:
        self[level] = variant_of(level), int(level.partition(STEP)[2] or 0)
        return self[level]


class CallTimes(dict[tuple[str, int, int], float]):
    """(variant, batch, step) -> ms of a call."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog

    def __missing__(self, key: tuple[str, int, int]) -> float:
        variant, batch, step = key
        self[key] = run_ms(self.catalog.level(variant), batch, step)
        return self[key]

    def call_ms(self, variant: str, images: int, how: ResolvedOptions | None, step: int) -> float:
        """Run time in ms of a call for so many images with these options."""
        if how is None:
            return self[variant, images, step]
        return resolved_ms(self.catalog.level(variant), how._replace(n=images))

    def of_job(self, job: Job) -> float:
        """Run time in ms of a job alone."""
        return self.call_ms(job.variant, job.images, job.how, job.step)

    def of_call(self, jobs: Sequence[Job]) -> float:
        """Run time in ms of jobs that share a call."""
        first = jobs[0]
        images = first.images if len(jobs) == 1 else sum([job.images for job in jobs])
        return self.call_ms(first.variant, images, first.how, first.step)


class LevelTimes(dict[str, float]):
    """level -> ms of one image, from noise or, of a reuse level, from its past image."""

    def __init__(self, calls: CallTimes, begun: Begun) -> None:
        super().__init__()
        self._calls, self._begun = calls, begun

    def __missing__(self, level: str) -> float:
        variant, step = self._begun[level]
        self[level] = self._calls[variant, 1, step]
        return self[level]
