"""Whether an audit finds an image that began from what is not its tenant's."""

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from replay.verify.audit.figures import ImageFigures, verdict
from replay.verify.audit.reused import Reused
from schemas.messages import LatentRef, Result, StageReuse, Status
from schemas.topics import RESULTS
from streams.codec.avro import encode
from streams.store import marks
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image, an_image_ref
from tests.memory_store import MemoryImageStore
from tests.replay.verify.audit.topics import Topics

LATENT = LatentRef(uri="memory:latent", sha256="ab", bytes=9, autoencoder="profile")
HIT, MISS = StageReuse(step=12, steps=25, similarity=0.97), StageReuse(steps=25, miss="none")


def a_result(name: str, tenant: str = "ann", **image: Any) -> Result:
    job = a_job(a_classified(a_request(request_id=name, tenant=tenant)))
    ended = completed(an_image(job, **image), None, None, reason="", by="t", policy="", now_ms=NOW_MS)
    return result_of(ended)


def a_source(name: str, tenant: str = "ann") -> Result:
    return a_result(name, tenant, latent=LATENT, reuse=MISS)


def the(*results: Result) -> Reused:
    found = Reused()
    for each in results:
        found.add(each)
    return found


def test_an_image_may_begin_from_one_that_its_own_tenant_completed() -> None:
    found = the(a_result("again", reuse=HIT), a_source("first"))
    assert (found.sourceless(), found.contradictory, found.outcomes) == ([], [], {"hit": 1, "none": 1})


@pytest.mark.parametrize(
    "other",
    [
        a_source("first", "bob"),
        a_result("first", reuse=MISS),  # no latent was stored
        a_result("first", reuse=HIT, latent=LATENT),  # no reuse of reuse
        dataclasses.replace(a_source("first"), status=Status.FAILED),
        a_source("again"),  # itself
    ],
)
def test_an_image_whose_tenant_left_nothing_to_begin_from_breaks_the_promise(other: Result) -> None:
    assert "again" in the(a_result("again", reuse=HIT), other).sourceless()


@pytest.mark.parametrize(
    "changes",
    [{"reused": False}, {"reuse_step": 13}, {"similarity": 0.5}, {"reuse_miss": "none"}, {"reuse_step": None}],
)
def test_a_result_that_says_something_else_of_reuse_than_its_path_is_found(changes: dict[str, Any]) -> None:
    assert the(dataclasses.replace(a_result("a", reuse=HIT), **changes)).contradictory == ["a"]


def test_a_result_that_claims_reuse_without_a_stage_that_reused_is_found() -> None:
    plain = a_result("a", reuse=MISS)
    assert the(plain).contradictory == []
    assert the(dataclasses.replace(plain, reused=True, reuse_step=3)).contradictory == ["a"]


def test_an_impossible_number_of_skipped_steps_is_found() -> None:
    assert the(a_result("a", reuse=StageReuse(step=25, steps=25, similarity=1.0))).contradictory == ["a"]


def a_card(store: MemoryImageStore, of: str) -> str:
    card = Image.new("RGB", (64, 32), (240, 200, 190))
    if of:
        marks.show(card, marks.mark_of(of))
    data = io.BytesIO()
    card.save(data, "PNG")
    return store.put(f"card-{of}", data.getvalue())


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ("first", None),
        ("bobs", "of tenant ann began from a latent of tenant bob"),
        ("nobodys", "no completed request"),
        ("", "no completed request"),
    ],
)
def test_an_image_shows_whose_latent_it_began_from(of: str, says: str | None) -> None:
    store = MemoryImageStore()
    again = a_result("again", reuse=HIT, image=an_image_ref(uri=a_card(store, of)))
    count, wrong = the(again, a_source("first"), a_source("bobs", "bob")).foreign(store)
    assert (count, len(wrong)) == (1, says is not None)
    if says is not None:
        assert says in wrong[0]
        broken = verdict(Topics().tally().figures(), ImageFigures(foreign=tuple(wrong)))
        assert broken is not None
        assert "not their tenant's" in broken


def test_an_image_that_has_gone_is_left_to_the_check_of_hashes() -> None:
    again = a_result("again", reuse=HIT, image=an_image_ref(uri="memory:ab/gone-0123456789abcdef.png"))
    assert the(again).foreign(MemoryImageStore()) == (0, [])


def test_the_mark_of_a_request_survives_a_latent_and_its_image() -> None:
    values = np.zeros((1, 4, 8), np.float16)
    marks.sign(values, "r-1")
    assert marks.signature(values) == marks.mark_of("r-1") != marks.mark_of("r-2")
    card = Image.new("RGB", (64, 32))
    marks.show(card, marks.signature(values))
    assert marks.shown(card) == marks.mark_of("r-1")


def topics_with(*results: Result) -> Topics:
    topics = Topics()
    for each in results:
        topics.ask(each.request_id)
        topics.end(each)
    return topics


def test_a_reused_image_without_a_source_breaks_the_promise_where_all_results_were_read() -> None:
    topics = topics_with(a_result("again", reuse=HIT))
    said = verdict(topics.tally().figures())
    assert said is not None
    assert "1 results began from no latent of their tenant (again)" in said
    assert verdict(topics.tally(since_ms=1).figures()) is None, "its source may have ended before"


def test_a_source_may_have_expired_from_a_log_that_does_not_begin_at_its_beginning() -> None:
    topics = Topics()
    topics.ask("again")
    topics.write(RESULTS, "again", encode(a_result("again", reuse=HIT)), offset=5)
    assert verdict(topics.tally().figures()) is None
    assert verdict(topics.tally(has_all_sources=True).figures()) is not None


def test_a_second_result_of_a_request_is_not_held_against_reuse() -> None:
    topics = topics_with(a_source("a"))
    topics.end(dataclasses.replace(a_source("a"), reused=True))
    assert topics.tally().figures().reuse_contradictory == ()
