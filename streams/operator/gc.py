"""Chooses the stored images to delete: those past the retention, and orphans that no request can ever name.

A latent is stored beside its image, and needed for less long: by an open request, and by the row of the index that
its COMPLETED result led to (`indexed.py`). That of a request that ended otherwise is an orphan, as is a draft's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from planner.serving.admission.inputs import is_input
from schemas.errors import InvalidRecord, PochadeError, UnknownSchema
from schemas.later import may_come
from schemas.messages import ImageGenerated, Status
from schemas.record import Incoming
from schemas.topics import IMAGES, RESULTS
from streams.codec.avro import decode, decode_result
from streams.kafka.consumers import snapshot
from streams.operator import cluster
from streams.operator.explain import steps_of
from streams.operator.indexed import NamedLatent, named_latent, needed_latents
from streams.settings import Settings
from streams.store.port import Stored
from streams.visible import counted

ORPHAN_MS = 3_600_000  # younger images may belong to a request whose records are still being written


@dataclass(frozen=True, slots=True)
class Garbage:
    """Stored images to delete: those past the retention, and orphans."""

    old: tuple[Stored, ...]
    orphans: tuple[Stored, ...]


class Mentions:
    """Collects the URIs that records of one deployment name: results, drafts included, and `images` of open requests.

    Latents of completed requests are apart: whether they are needed is the index's to say.
    """

    def __init__(self) -> None:
        self._by_results: set[str] = set()
        self._by_images: dict[str, set[str]] = {}  # request -> its images
        self._ended: set[str] = set()
        self.latents: list[NamedLatent] = []
        self.unreadable = 0

    def add(self, record: Incoming) -> None:
        """Add a record of `results` or `images`; one that a newer release may have written is counted.

        Other bytes name no image: roles refuse them, so that no request waits for what they might have named.
        """
        try:
            if record.topic == RESULTS:
                self._add_result(record)
            else:
                image = decode(record.value, ImageGenerated)
                uris = {each.uri for each in (image.image, *image.more, image.latent) if each is not None}
                self._by_images.setdefault(image.job.classified.request.request_id, set()).update(uris)
        except UnknownSchema as error:
            self.unreadable += may_come(error.schema_id)
        except InvalidRecord:
            pass

    def _add_result(self, record: Incoming) -> None:
        result = decode_result(record.value)
        path = steps_of(result)
        self._ended.add(result.request_id)
        self._by_results.update(result.image_uris)
        if result.image_uri:
            self._by_results.add(result.image_uri)
        for step in path:
            self._by_results.update(each.uri for each in (step.image, *step.more) if each is not None)
        if result.status is Status.COMPLETED:
            latent = named_latent(result, path, record.partition, record.offset)
            if latent is not None:
                self.latents.append(latent)

    def needed(self) -> set[str]:
        """Return the URIs that a result or an open request names, without the latents that only the index keeps."""
        unended = (uris for request, uris in self._by_images.items() if request not in self._ended)
        return self._by_results.union(*unended)


class Needed(NamedTuple):
    """The objects that must stay in a store."""

    uris: set[str]  # that a record or a row of an index names
    results_kept_ms: float  # the shortest retention of `results`
    troubles: tuple[str, ...]  # why an index could not be asked, so that all its latents stay


def needed(settings: Settings) -> Needed:
    """Return what records and indexes still name.

    All deployments of the cluster are read, since they share the store.

    Raises PochadeError: the cluster cannot be read, or holds records that this version cannot read.
    """
    uris, kept_ms, troubles = set[str](), list[float](), list[str]()
    unreadable = 0
    for deployment in cluster.deployments(settings):  # such as demos
        mentions = Mentions()
        kept_ms += [found.retention_ms for name, found in cluster.topics(deployment).items() if name == RESULTS]
        for topic in (IMAGES, RESULTS):  # in this order: a request that ends between the two is then found in `results`
            snapshot.past(deployment, [topic], keep=_adding(mentions))
        latents, trouble = needed_latents(deployment, mentions.latents)
        uris |= mentions.needed() | latents
        troubles += [trouble] if trouble else []
        unreadable += mentions.unreadable
    if unreadable:
        raise PochadeError(
            f"{counted(unreadable, 'record')} of images and results cannot be read, so orphans "
            "cannot be recognised: upgrade this command to the version of the roles, or run it without --orphans"
        )
    return Needed(uris, min(kept_ms, default=0.0), tuple(troubles))


def _adding(mentions: Mentions) -> Callable[[Incoming], bool]:
    def add(record: Incoming) -> bool:
        mentions.add(record)
        return False

    return add


def choose(
    stored: Iterable[Stored],
    now_ms: int,
    retention_ms: float,
    needed: set[str] | None,
    results_kept_ms: float,
    orphan_ms: float = ORPHAN_MS,
) -> Garbage:
    """Choose the images to delete. `needed` None: no orphans are chosen.

    An input image, which requests yet to come may name, is never an orphan: it goes when it is past the retention.

    An image older than the retention of `results` may have been named by a record that is gone: it is kept until
    the retention of images.

        age   0 ..... orphan_ms ............... results' retention ............ retention .....
              kept        deleted if no record  kept                            deleted
                          names it
    """
    old, orphans = [], []
    for image in stored:
        age_ms = now_ms - image.modified_ms
        if age_ms > retention_ms:
            old.append(image)
        elif needed is None or image.uri in needed or is_input(image.uri):
            continue
        elif orphan_ms < age_ms < results_kept_ms:
            orphans.append(image)
    return Garbage(tuple(old), tuple(orphans))
