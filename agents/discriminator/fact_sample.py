"""Checks the facts of a sample of the kept images, beside serving them: quality as it is, not as it is modelled.

One image is checked at a time, in a thread; what is drawn meanwhile is skipped and counted, so that no request waits.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from planner.catalog.model import Catalog
from schemas import ids
from schemas.messages import ImageGenerated
from streams import metrics
from streams.store.input_images import open_stored
from streams.store.port import ImageStore

log = logging.getLogger(__name__)

Facts = Callable[[str, np.ndarray], bool | None]
"""(prompt, uint8 [h, w, 3]) -> whether all facts that the prompt states hold in the image; None: it states none."""


class FactSample:
    """A share of the kept images, drawn by their requests' ids. Used by one event loop."""

    def __init__(self, share: float, facts: Facts, catalog: Catalog, store: ImageStore) -> None:
        """`share`: of the kept images, [0, 1]."""
        self._share = share
        self._facts = facts
        self._catalog = catalog
        self._store = store
        self._checking = ThreadPoolExecutor(1, "facts")
        self._check_in_flight: asyncio.Future[None] | None = None

    def offer(self, image: ImageGenerated) -> None:
        """Check an image that is kept, if it is drawn and none is being checked."""
        request = image.job.classified.request
        if ids.draw(request.request_id, "facts") >= self._share:
            return
        if self._check_in_flight is not None and not self._check_in_flight.done():
            metrics.CHECKS.labels("skipped").inc()
            return
        self._check_in_flight = asyncio.get_running_loop().run_in_executor(self._checking, self._check, image)

    def _check(self, image: ImageGenerated) -> None:
        request, holds = image.job.classified.request, None
        try:
            if not image.components and not request.options.image:  # facts are read in the plain style
                with open_stored(self._store.get(image.image.uri)) as opened:
                    holds = self._facts(request.prompt, np.asarray(opened.convert("RGB")))
        except Exception as error:  # whatever a store or a checker raises: the image is served
            log.warning("an image was not checked for its facts: %r", error)
        if holds is None:
            metrics.CHECKS.labels("unreadable").inc()
            return
        metrics.CHECKS.labels("checked").inc()
        metrics.CHECKED_QUALITY.labels(image.job.level).observe(float(holds))
        modelled = self._catalog.level(image.job.variant).quality
        if modelled is not None:
            metrics.MODELLED_QUALITY.labels(image.job.level).observe(modelled)
