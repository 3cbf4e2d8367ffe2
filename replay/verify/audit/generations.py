"""Counts generated jobs from `images` and `events`: each job once, repeats, and work begun in vain."""

from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

from schemas.messages import ImageGenerated


class Generation(NamedTuple):
    """One generation of a job; a record that is read or written again stands for the generation it names."""

    worker_id: str
    started_ms: int
    attempt: int


class Begun(NamedTuple):
    """The beginning of a job's generation at a worker, from `started` in `events`."""

    at_ms: int
    worker_id: str


Stage = tuple[str, int, str]  # request, stage, level: what a job is for


class Generations:
    """Takes in images and beginnings in any order."""

    def __init__(self) -> None:
        self._by_job: defaultdict[str, dict[Generation, int]] = defaultdict(dict)  # -> worker ms, its share of a batch
        self._stages: dict[str, int] = {}  # job id -> stage
        self._jobs: defaultdict[tuple[str, int], dict[str, None]] = defaultdict(dict)  # request and stage -> its jobs
        self.begun: defaultdict[Stage, set[Begun]] = defaultdict(set)
        self._generated: defaultdict[Stage, set[Begun]] = defaultdict(set)
        self._until_ms: dict[tuple[str, Begun], int] = {}  # job -> when a generation was done

    def add(self, image: ImageGenerated) -> None:
        """Add a record of `images`."""
        job = image.job
        took_ms = max(0, image.generated_ms - image.started_ms) // max(1, image.batch)
        self._by_job[job.job_id][Generation(image.worker_id, image.started_ms, image.attempt)] = took_ms
        self._stages[job.job_id] = job.stage
        self._jobs[job.classified.request.request_id, job.stage][job.job_id] = None
        stage = job.classified.request.request_id, job.stage, job.level
        begun = Begun(image.started_ms, image.worker_id)
        self._generated[stage].add(begun)
        self._until_ms[job.job_id, begun] = image.generated_ms

    def begin(self, stage: Stage, begun: Begun) -> None:
        """Add the beginning of a generation."""
        self.begun[stage].add(begun)

    def counts(self) -> tuple[int, int]:
        """Jobs generated, and those of them beyond a request's first."""
        return len(self._stages), sum(stage > 0 for stage in self._stages.values())

    def repeats(self) -> tuple[int, int]:
        """Generations beyond the first of a job, and the worker milliseconds that they took."""
        extra = [list(generations.values())[1:] for generations in self._by_job.values()]
        return sum(len(each) for each in extra), sum(ms for each in extra for ms in each)

    def by_other_jobs(self) -> tuple[int, int]:
        """Count the jobs of a request and stage beyond the first job generated, and their worker milliseconds.

        A request whose job is routed again, to whatever level, may have several jobs of one stage; each counts with
        its first generation.
        """
        others = [job for jobs in self._jobs.values() for job in list(jobs)[1:]]
        return len(others), sum(next(iter(self._by_job[job].values())) for job in others)

    def spans(self, most_ms: int) -> list[tuple[int, int]]:
        """Return when each generation began and ended (epoch ms).

        One that made no image ended at the latest when its worker began the next, or after `most_ms`.
        """
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for begun in self.begun.values():
            for each in begun:
                starts[each.worker_id].append(each.at_ms)
        for times in starts.values():
            times.sort()
        spans = [(begun.at_ms, until_ms) for (_, begun), until_ms in self._until_ms.items()]
        for each in self._in_vain():
            times = starts[each.worker_id]
            later = bisect_right(times, each.at_ms)
            spans.append((each.at_ms, min([each.at_ms + most_ms, *times[later : later + 1]])))
        return spans

    def in_vain(self) -> int:
        """Count beginnings without an image: cancelled, or the worker died or failed. Events are best effort."""
        return len(self._in_vain())

    def _in_vain(self) -> list[Begun]:
        return [each for stage, begun in self.begun.items() for each in begun - self._generated[stage]]
