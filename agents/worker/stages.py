"""Stages that features add around a worker's calls. The worker knows them by what they do, and names no feature."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from PIL.Image import Image

from agents.worker.images import SafeImage
from agents.worker.work import WorkerJob
from schemas.messages import Made
from schemas.record import Outgoing
from streams.settings import Settings
from streams.store.port import ImageStore

Check = Callable[[Sequence[Image], str], list[SafeImage]]  # images of a request and its tenant; raises Blocked


class Opening(NamedTuple):
    """What a worker's process opens stages with."""

    settings: Settings
    store: ImageStore
    note: Callable[[Outgoing], object]  # sends a record that nothing waits for; any thread may call it
    check: Check  # by all stages, for images that are shown beside those that are stored


class Stage:
    """What a feature does around a worker's calls. Each method may stay as it is here; one thread calls them."""

    def for_call(self, jobs: Sequence[WorkerJob], is_judged: Callable[[WorkerJob], bool]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what `OpenedEngine.generate` gets besides for a call. `is_judged`: whether a job's image is scored."""
        return {}

    def check(self, images: Sequence[SafeImage], tenant: str) -> Sequence[SafeImage]:  # noqa: ARG002
        """Return the images of a request as they may be stored.

        Raises Blocked: none of them may. Any other error lets the job be tried again, and nothing is stored.
        """
        return images

    def seal(self, job: WorkerJob, made: Made, number: int, data: bytes) -> bytes:  # noqa: ARG002
        """Return the PNG file of a job's image as it is stored. `number`: of the image, the first one's being 0."""
        return data

    def close(self) -> None:
        """End its threads."""


class Stages:
    """The stages of a worker's process, in the order in which they are asked."""

    def __init__(self, stages: Iterable[Stage] = ()) -> None:
        self._stages = list(stages)

    @classmethod
    def opened(
        cls, makes: Iterable[Callable[[Opening], Stage]], settings: Settings, store: ImageStore,
        note: Callable[[Outgoing], object],
    ) -> "Stages":  # fmt: skip
        """Open the stages of features. Raises PochadeError: what the settings ask for cannot be opened."""
        stages = cls()
        opening = Opening(settings, store, note, stages.check)
        stages._stages = [make(opening) for make in makes]
        return stages

    def for_call(self, jobs: Sequence[WorkerJob], is_judged: Callable[[WorkerJob], bool]) -> dict[str, Any]:
        """Return what the engine gets besides for a call."""
        more = dict[str, Any]()
        for stage in self._stages:
            more |= stage.for_call(jobs, is_judged)
        return more

    def check(self, images: Sequence[Image], tenant: str) -> list[SafeImage]:
        """Return the images of a request as they may be stored. Raises Blocked, and what a stage raises."""
        checked: Sequence[SafeImage] = [SafeImage(image) for image in images]
        for stage in self._stages:
            checked = stage.check(checked, tenant)
        return list(checked)

    def seal(self, job: WorkerJob, made: Made, number: int, data: bytes) -> bytes:
        """Return the PNG file of a job's image as it is stored. Raises what a stage raises."""
        for stage in self._stages:
            data = stage.seal(job, made, number, data)
        return data

    def close(self) -> None:
        """Close all stages."""
        for stage in self._stages:
            stage.close()
