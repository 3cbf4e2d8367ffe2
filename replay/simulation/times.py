"""The run times of jobs: the planner's `run_ms`, cached, as it is needed several times per request."""

from collections.abc import Sequence

from planner.catalog.entries import reuse_share, reuse_step, run_ms, variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions, resolved_ms
from replay.simulation.job import Job


class ReuseShares(dict[str, float]):
    """level -> the share of its steps that it lets a stored latent save: 0 but for a reuse level."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog

    def __missing__(self, level: str) -> float:
        self[level] = reuse_share(level, self._catalog.level(variant_of(level)))
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
        """Return the run time in ms of a call for `images` images with these options."""
        if how is None:
            return self[variant, images, step]
        return resolved_ms(self.catalog.level(variant), how._replace(n=images))

    def of_job(self, job: Job) -> float:
        """Return the run time in ms of a job alone; with a lookup, the mean over hits and misses."""
        if job.expected_ms is not None:
            return job.expected_ms
        return self.call_ms(job.variant, job.images, job.how, job.step)

    def of_call(self, jobs: Sequence[Job]) -> float:
        """Run time in ms of jobs that share a call."""
        first = jobs[0]
        images = first.images if len(jobs) == 1 else sum([job.images for job in jobs])
        return self.call_ms(first.variant, images, first.how, first.step)


class LevelTimes(dict[str, float]):
    """level -> ms of one image, from noise or, of a reuse level, from a stored latent."""

    def __init__(self, calls: CallTimes) -> None:
        super().__init__()
        self._calls = calls

    def __missing__(self, level: str) -> float:
        self[level] = self._calls[variant_of(level), 1, reuse_step(level)]
        return self[level]
