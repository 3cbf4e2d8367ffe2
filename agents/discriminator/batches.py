"""The front of a role's judges: images that wait are judged together, in one call.

Nothing waits for a batch to fill: a call takes what is there, so that an image that comes alone is judged alone, at
once. One call runs at a time, as one device does one.
"""

import asyncio
import io
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

from agents.discriminator.scorers import Scorer
from agents.judges import JudgeAway, JudgeFailed
from schemas.messages import ImageGenerated
from streams import metrics
from streams.clock import now_ms
from streams.store.port import ImageStore

MOST: Final = 8  # images in a call; a job of several images is never divided


class Judged(NamedTuple):
    """The confidence in the worst image of a job, and when the call began and ended that judged it."""

    confidence: float
    begun_ms: int
    ended_ms: int


class Waiting(NamedTuple):
    """A job that waits for its confidence."""

    discriminator: str
    image: ImageGenerated
    answer: "asyncio.Future[Judged]"


class Batches:
    """Judges jobs' images by their discriminators. Used by one event loop."""

    def __init__(self, store: ImageStore, scorers: Mapping[str, Scorer], most: int = MOST) -> None:
        self._store, self._scorers, self._most = store, scorers, most
        self._waiting = deque[Waiting]()
        self._fetching = ThreadPoolExecutor(most, "fetch")
        self._running: asyncio.Task[None] | None = None

    def submit(self, discriminator: str, image: ImageGenerated) -> "asyncio.Future[Judged]":
        """Have a job judged; what comes in the same turn of the loop is judged with it.

        The answer raises what fetching its images has raised, or what the judge raises.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Judged] = loop.create_future()
        answer.add_done_callback(lambda each: each.cancelled() or each.exception())  # nobody need ask for it
        self._waiting.append(Waiting(discriminator, image, answer))
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return answer

    async def _run(self) -> None:
        while self._waiting:
            taken = self._taken()
            begun_ms, begun_s = now_ms(), time.monotonic()
            found = await asyncio.to_thread(self._scored, taken)
            took_s, ended_ms = time.monotonic() - begun_s, now_ms()
            for each, confidence in zip(taken, found, strict=True):
                if each.answer.done():  # who asked has left
                    continue
                if isinstance(confidence, Exception):
                    each.answer.set_exception(confidence)
                else:
                    metrics.SCORING_SECONDS.labels(each.discriminator).observe(took_s)
                    each.answer.set_result(Judged(confidence, begun_ms, ended_ms))

    def _taken(self) -> list[Waiting]:
        """Return the jobs of the next call: the first, and those of its discriminator behind it, while they fit."""
        taken, left = [self._waiting.popleft()], deque[Waiting]()
        images = 1 + len(taken[0].image.more)
        for each in self._waiting:
            more = 1 + len(each.image.more)
            if each.discriminator == taken[0].discriminator and images + more <= self._most:
                taken.append(each)
                images += more
            else:
                left.append(each)
        self._waiting = left
        return taken

    def _scored(self, taken: Sequence[Waiting]) -> list[float | Exception]:
        """Return the confidence in each job's worst image, or why there is none."""
        fetched = list(self._fetching.map(self._fetched, taken)) if len(taken) > 1 else [self._fetched(taken[0])]
        there = [(job, images) for job, images in zip(taken, fetched, strict=True) if not isinstance(images, Exception)]
        scores = iter(self._together(there))
        return [each if isinstance(each, Exception) else next(scores) for each in fetched]

    def _together(self, there: Sequence[tuple[Waiting, list[np.ndarray]]]) -> list[float | Exception]:
        """Judge jobs in one call; after an error that is of one of them, each in its own."""
        if not there:
            return []
        requests = [job.image.job.classified.request for job, images in there for _ in images]
        try:
            scorer = self._scorers[there[0][0].discriminator]
            confidences = iter(scorer.score(requests, [image for _, images in there for image in images]))
            return [_worst([next(confidences) for _ in images]) for _, images in there]
        except (JudgeAway, JudgeFailed) as error:
            return [error] * len(there)
        except Exception as error:  # whatever a model raises over an image
            if len(there) == 1:
                return [error]
            return [found for each in there for found in self._together([each])]

    def _fetched(self, waiting: Waiting) -> list[np.ndarray] | Exception:
        """Return a job's images as uint8 [h, w, 3], or the error over them; nothing is judged before all are there."""
        image = waiting.image
        try:
            return [_pixels(self._store.get(each.uri)) for each in (image.image, *image.more)]
        except Exception as error:  # the role knows what to do about each
            return error


def _pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data), formats=("PNG",)) as opened:  # as workers write them
        return np.asarray(opened.convert("RGB"))


def _worst(confidences: Sequence[float]) -> float:
    """Return the lowest; NaN, which counts as no confidence at all, goes before any."""
    return min(confidences, key=lambda each: -1.0 if math.isnan(each) else each)
