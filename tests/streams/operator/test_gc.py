"""Which images are collected."""

import dataclasses
import math

import pytest

from planner.serving.admission.inputs import input_name
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from schemas.later import MAX_AHEAD
from schemas.messages import LatentRef, Status
from schemas.record import Incoming
from schemas.registry import by_id
from schemas.topics import IMAGES
from streams.codec.avro import encode
from streams.operator.gc import ORPHAN_MS, Mentions, choose
from streams.store.port import Stored
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image, an_image_ref
from tests.memory_store import MemoryImageStore
from tests.replay.runs import a_generated_result, a_result, an_escalated_result
from tests.streams.operator.test_client import record

DAY_MS = 86_400_000
NEWEST_ID = len(by_id())


def framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"\xff"


def a_stored_image(uri: str, age_ms: float) -> Stored:
    return Stored(uri, int(NOW_MS - age_ms), 100)


def uris(images: tuple[Stored, ...]) -> list[str]:
    return [image.uri for image in images]


def an_image_record(request_id: str, uri: str) -> Incoming:
    job = a_job(a_classified(a_request(request_id=request_id)))
    value = encode(an_image(job, image=an_image_ref(uri=uri)))
    return Incoming(topic=IMAGES, partition=0, offset=0, timestamp_ms=NOW_MS, key=request_id.encode(), value=value)


def test_images_past_the_retention_are_old_named_or_not() -> None:
    stored = [a_stored_image("a", 31 * DAY_MS), a_stored_image("b", 29 * DAY_MS)]
    garbage = choose(stored, NOW_MS, 30 * DAY_MS, None, 0)
    assert (uris(garbage.old), garbage.orphans) == (["a"], ())


@pytest.mark.parametrize(
    ("age_ms", "is_orphan"),
    [(ORPHAN_MS - 1, False), (ORPHAN_MS + 1, True), (8 * DAY_MS - 1, True), (8 * DAY_MS + 1, False)],
)
def test_an_orphan_is_older_than_an_hour_and_within_what_results_still_tell(age_ms: float, is_orphan: bool) -> None:
    garbage = choose([a_stored_image("a", age_ms)], NOW_MS, 30 * DAY_MS, set(), 8 * DAY_MS)
    assert uris(garbage.orphans) == (["a"] if is_orphan else [])


def test_an_image_that_is_needed_is_no_orphan() -> None:
    stored = [a_stored_image("a", 2 * ORPHAN_MS), a_stored_image("b", 2 * ORPHAN_MS)]
    assert uris(choose(stored, NOW_MS, 30 * DAY_MS, {"a"}, math.inf).orphans) == ["b"]


def test_an_input_image_is_no_orphan_but_grows_old() -> None:
    uri = MemoryImageStore().put(input_name("default"), b"x")
    young, old = (Stored(uri, NOW_MS - age_ms, 1) for age_ms in (2 * ORPHAN_MS, 31 * DAY_MS))
    garbage = choose([young, old], NOW_MS, 30 * DAY_MS, set(), math.inf)
    assert (garbage.orphans, garbage.old) == ((), (old,))


def test_results_need_their_image_and_the_drafts_before_it() -> None:
    store, mentions = MemoryImageStore(), Mentions()
    escalated = an_escalated_result(store, request_id="r-2")
    for result in (a_generated_result(store, request_id="r-1"), escalated):
        mentions.add(record(result))
    assert mentions.needed() == {stored.uri for stored in store.list(NOW_MS * 2)}
    assert len(mentions.needed()) == 3


def test_the_latent_of_an_open_request_is_needed_and_that_of_an_ended_one_is_the_indexs_to_keep() -> None:
    latent = LatentRef(uri="memory:latent", sha256="ab", bytes=9, autoencoder="cd")
    mentions, job = Mentions(), a_job(a_classified(a_request(request_id="open")))
    image = an_image(job, latent=latent)
    mentions.add(dataclasses.replace(an_image_record("open", "i"), value=encode(image)))
    assert "memory:latent" in mentions.needed()
    ended = completed(image, None, None, reason="", by="t", policy="", now_ms=NOW_MS)
    mentions.add(record(result_of(ended)))
    assert mentions.needed() == {image.image.uri}
    assert [each.uri for each in mentions.latents] == ["memory:latent"]


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.COMPLETED])
def test_a_latent_whose_image_did_not_complete_its_request_is_an_orphan_after_the_grace(status: Status) -> None:
    latent = LatentRef(uri="memory:latent", sha256="ab", bytes=9, autoencoder="cd")
    image = an_image(a_job(a_classified(a_request(request_id="r"))), latent=latent)
    mentions = Mentions()
    mentions.add(dataclasses.replace(an_image_record("r", "i"), value=encode(image)))
    ended = completed(image, None, None, reason="", by="t", policy="", now_ms=NOW_MS)
    mentions.add(record(dataclasses.replace(result_of(ended), status=status)))
    assert mentions.latents == []
    stored = [a_stored_image("memory:latent", age_ms) for age_ms in (ORPHAN_MS - 1, ORPHAN_MS + 1)]
    garbage = choose(stored, NOW_MS, 30 * DAY_MS, mentions.needed(), math.inf)
    assert [each.modified_ms for each in garbage.orphans] == [NOW_MS - ORPHAN_MS - 1]


def test_images_of_a_request_in_work_are_needed_until_it_ends_without_them() -> None:
    mentions = Mentions()
    mentions.add(an_image_record("r-1", "memory:1"))
    mentions.add(an_image_record("r-2", "memory:2"))
    assert mentions.needed() == {"memory:1", "memory:2"}
    mentions.add(record(a_result(request_id="r-1")))
    assert mentions.needed() == {"memory:2"}


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        (framed(NEWEST_ID + 1), 1),
        (framed(NEWEST_ID + MAX_AHEAD), 1),
        (framed(NEWEST_ID + MAX_AHEAD + 1), 0),
        (framed(1), 0),
        (b"junk", 0),
        (None, 0),
    ],
)
def test_a_record_that_a_newer_release_may_have_written_keeps_all_images_and_garbage_keeps_none(
    value: bytes | None, counts: int
) -> None:
    mentions = Mentions()
    mentions.add(dataclasses.replace(record(a_result()), value=value))
    mentions.add(dataclasses.replace(an_image_record("r", "i"), value=value))
    assert mentions.unreadable == 2 * counts
