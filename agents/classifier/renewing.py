"""A classifier that is opened again when its files were replaced, so that a new one is served without a restart."""

import logging
import pathlib
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from schemas.errors import PochadeError
from streams import metrics

log = logging.getLogger(__name__)

EVERY_S = 5.0  # between two looks at the file
OLD_CLASSIFIER = "old_classifier"  # the fallback, as it is counted


J_co = TypeVar("J_co", covariant=True)


class Classifies(Protocol[J_co]):
    """Protocol of what is renewed: `agents.classifier.judges.PromptJudge`."""

    @property
    def name(self) -> str: ...
    def classify(self, prompt: str) -> J_co: ...


class RenewedClassifier(Generic[J_co]):
    """The classifier of a folder; one thread at a time. Where the new one cannot be opened the old one goes on."""

    def __init__(
        self, load: Callable[[], Classifies[J_co]], file: pathlib.Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`load`: opens the folder, and raises PochadeError; `file`: of the folder, the last one that is written."""
        self._load, self._file, self._clock = load, file, clock
        self._written = self._mark()
        self._judge, self._looked_s = load(), clock()

    @property
    def name(self) -> str:
        """Its name with its version."""
        return self._judge.name

    def classify(self, prompt: str) -> J_co:
        """Classify by the newest that could be opened."""
        if self._clock() - self._looked_s >= EVERY_S:
            self._looked_s = self._clock()
            if (mark := self._mark()) != self._written:
                self._written = mark  # of one that cannot be opened, too: it is not tried again
                self._renew()
        return self._judge.classify(prompt)

    def _renew(self) -> None:
        before = self._judge.name
        try:
            self._judge = self._load()
        except (PochadeError, OSError, ValueError) as error:
            metrics.FALLBACKS.labels("classifier", OLD_CLASSIFIER).inc()
            log.warning("classifier %s goes on, as the new one in %s cannot be opened: %s", before, self._file, error)
        else:
            log.info("classifier %s in place of %s", self._judge.name, before)

    def _mark(self) -> int:
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return 0
