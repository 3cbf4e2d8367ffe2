"""Which latents are kept because the index names them, or because nobody can say that it does not."""

import pathlib
from dataclasses import replace

import pytest

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from schemas.messages import ImageGenerated, LatentRef, Result, Status
from streams.operator import indexed
from streams.operator.explain import steps_of
from streams.operator.indexed import NamedLatent, named_latent, needed_latents, still_needed
from streams.settings import Settings, load
from streams.vectors.open import open_vectors
from streams.vectors.port import Latent, Selection, VectorStore, row_id
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image
from tests.patience import PATIENCE_S
from tests.streams.vectors.rows import DIMENSION, a_row

LATENT = LatentRef(uri="memory:latent", sha256="ab", bytes=9, autoencoder="cd")
NAMED = NamedLatent(uri="memory:latent", row="row-1", partition=0, offset=7)


def a_result(image: ImageGenerated) -> Result:
    return result_of(completed(image, None, None, reason="", by="t", policy="", now_ms=NOW_MS))


def test_the_latent_of_a_completed_image_is_named_by_the_row_of_its_tenants_image() -> None:
    image = an_image(a_job(a_classified(a_request(request_id="a", tenant="ann"))), latent=LATENT)
    result = a_result(image)
    found = named_latent(result, steps_of(result), 3, 7)
    assert found == NamedLatent("memory:latent", row_id("ann", image.image.sha256), 3, 7)
    bare = a_result(replace(image, latent=None))
    assert named_latent(bare, steps_of(bare), 3, 7) is None
    assert named_latent(replace(result, status=Status.FAILED, path="[]"), (), 3, 7) is None


@pytest.mark.parametrize(
    ("rows", "is_kept"),
    [
        ({"row-1": frozenset({"memory:latent"})}, True),
        ({"row-1": frozenset({"memory:another"})}, False),  # an equal image of a later request took its row
        ({}, False),
        (None, True),
    ],
)
def test_a_latent_is_kept_while_a_row_names_it_or_nobody_can_say(
    rows: dict[str, frozenset[str]] | None, is_kept: bool
) -> None:
    assert still_needed([NAMED], {0: 8}, rows) == ({"memory:latent"} if is_kept else set())


@pytest.mark.parametrize(("read_to", "is_kept"), [({0: 8}, False), ({0: 7}, True), ({1: 8}, True), ({}, True)])
def test_a_latent_whose_result_the_index_writer_has_not_read_is_kept(read_to: dict[int, int], is_kept: bool) -> None:
    assert bool(still_needed([NAMED], read_to, {})) is is_kept


class AllRead:
    """An index writer that has read everything."""

    def __init__(self, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(indexed, "positions", lambda *_: {0: 1000})
        self.settings = load({"home": home, "vectors": {"url": "exact"}})

    def store(self, key: str = "encoder") -> VectorStore:
        found = open_vectors(self.settings, key)
        assert found is not None
        found.ensure(DIMENSION, PATIENCE_S)
        return found

    def kept(self, *named: NamedLatent, settings: Settings | None = None) -> tuple[set[str], str]:
        return needed_latents(settings or self.settings, list(named))


@pytest.fixture
def index(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AllRead:
    return AllRead(tmp_path, monkeypatch)


def test_the_collections_of_every_encoder_are_asked(index: AllRead) -> None:
    rows = {name: a_row(id=name, latent=Latent(uri=f"memory:{name}", sha256="", bytes=1)) for name in ("old", "new")}
    index.store("an encoder of before").upsert([rows["old"]], PATIENCE_S)
    index.store("the encoder of now").upsert([rows["new"]], PATIENCE_S)
    named = [NamedLatent(f"memory:{name}", name, 0, 1) for name in ("old", "new", "evicted")]
    assert index.kept(*named) == ({"memory:old", "memory:new"}, "")


def test_after_the_index_was_emptied_what_it_can_be_filled_from_is_kept(index: AllRead) -> None:
    latents, why = index.kept(NAMED)
    assert (latents, "`pochade reuse rebuild`" in why) == ({"memory:latent"}, True)
    store = index.store()
    store.upsert([a_row()], PATIENCE_S)
    store.delete(Selection(), PATIENCE_S)
    assert index.kept(NAMED)[0] == {"memory:latent"}


def test_without_a_vector_store_every_latent_of_a_completed_image_is_kept(
    index: AllRead, tmp_path: pathlib.Path
) -> None:
    assert index.kept(NAMED, settings=load({"home": tmp_path})) == ({"memory:latent"}, "")


@pytest.mark.milvus
def test_a_store_that_does_not_answer_costs_no_latent_and_is_reported(index: AllRead, tmp_path: pathlib.Path) -> None:
    lite = load({"home": tmp_path, "vectors": {"url": "lite"}})
    latents, why = index.kept(NAMED, settings=lite)
    assert (latents, "cannot be asked" in why) == ({"memory:latent"}, True)
