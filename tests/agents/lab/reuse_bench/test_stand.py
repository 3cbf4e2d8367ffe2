"""A worker and an index writer in this process, on a stand-in engine and real stores in a folder."""

import contextlib
import pathlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import agents.worker.reuse
from agents.engines import Generated, OpenedEngine
from agents.lab.reuse_bench import filling, requests
from agents.lab.reuse_bench.cost import cost_without_repeats
from agents.lab.reuse_bench.retrieval import percentiles, retrieval, timed
from agents.lab.reuse_bench.route import Route
from agents.lab.reuse_bench.stand import Place, Request, Stand, sought
from agents.lab.reuse_bench.stream import serve_stream
from agents.profiling.seeded_prompts import SeededPrompts
from agents.reuse.prompt_key import WordsKey
from agents.worker.lookups import Lookups
from agents.worker.reuse import opener
from schemas.errors import PochadeError
from schemas.messages import ReuseFloor, ReusePlan
from streams.settings import load
from streams.store.open import open_store
from streams.vectors.open import open_vectors
from tests.agents.worker.reusing import HEAVY, LONG, LatentEngine
from tests.builders import a_catalog

PLAN = ReusePlan(floors=(ReuseFloor(similarity=0.8, share=0.5),), key="words")  # no guard: no spaCy
ROUTE = Route("heavy~k5", HEAVY, 0.5, PLAN)


class SizedEngine(LatentEngine):
    """Its images are of the size that is asked for, as rows of the index are found by it."""

    def generate(self, tasks: Any, how: Any, should_stop: Any, *, wants_latents: bool = False) -> Generated | None:
        made = super().generate(tasks, how, should_stop, wants_latents=wants_latents)
        return made and Generated([image.resize((how.width, how.height)) for image in made.images], made.latents)


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(agents.worker.reuse, "Lookups", partial(Lookups, deadlines=LONG))  # on a busy machine, too
    settings = load({"home": str(tmp_path), "vectors": {"url": "exact"}})
    catalog = a_catalog(variants={"heavy": HEAVY}, cascades=(), class_cuts={})
    return Place(settings, catalog, open_store(settings), OpenedEngine(SizedEngine()))


@contextlib.contextmanager
def filled(place: Place, prompts: list[str]) -> Iterator[None]:
    key = WordsKey()
    vectors = open_vectors(place.settings, key.digest)
    assert vectors is not None
    with contextlib.closing(vectors), Stand(place, ROUTE) as stand:
        filling.fill(place, vectors, key, prompts, filling.one_image(stand), lambda _count: None)
    yield


def asked(*prompts: str) -> SeededPrompts:
    return SeededPrompts(prompts=prompts, seeds=tuple(range(len(prompts))))


def test_a_prompt_that_comes_again_begins_from_the_latent_that_the_index_writer_let_in(place: Place) -> None:
    with Stand(place, ROUTE) as stand:
        first = stand.serve(Request("r-0", "a red heart", 0))
        stand.index(first)
        again = stand.serve(Request("r-1", "a red heart", 1))
    assert first.reuse is not None
    assert again.reuse is not None
    assert (first.reuse.miss, again.reuse.step) == ("none", 5)


def test_a_worker_whose_plan_says_nothing_of_reuse_looks_nothing_up(place: Place) -> None:
    with Stand(place, ROUTE, reuses=False) as stand:
        image = stand.serve(Request("r-0", "a red heart", 0))
    assert image.reuse is None
    assert image.latent is None


def test_a_stream_has_its_hits_generated_again_in_all_steps_and_in_fewer(place: Place) -> None:
    done = list[int]()
    found = serve_stream(place, ROUTE, asked("a red heart", "a blue star", "a red heart"), done.append)
    assert [each.step for each in found.reuse] == [0, 0, 5]
    assert len(found.begun.quality) == len(found.noise.quality) == 1
    assert found.fewer is not None
    assert sum(done) == 5
    engine = place.engine._engine
    assert isinstance(engine, LatentEngine)
    assert [step for step, _ in engine.begun] == [0, 0, 5, 0, 0]


def test_what_was_reused_does_not_enter_the_index(place: Place) -> None:
    with Stand(place, ROUTE) as stand:
        for at, prompt in enumerate(["a red heart", "a red heart now", "a red heart now then"]):
            image = stand.serve(Request(f"r-{at}", prompt, at))
            stand.index(image)
            assert image.reuse is not None
            assert (image.latent is None) == (image.reuse.step > 0)


def test_a_request_that_fails_in_the_worker_ends_the_bench(place: Place) -> None:
    engine = place.engine._engine
    assert isinstance(engine, LatentEngine)
    engine._breaks = lambda _tasks: True
    with Stand(place, ROUTE) as stand, pytest.raises(PochadeError, match="no such colour"):
        stand.serve(Request("r-0", "a red heart", 0))


def test_the_cost_is_of_images_that_repeat_nothing(place: Place) -> None:
    found = cost_without_repeats(place, ROUTE, ["one", "two", "three"], 1, lambda _count: None)
    assert found["images"] == 3
    assert found["outcomes"] == {"none": 3}
    assert found["on_ms"] > 0.0
    assert found["before_seen"]["value"] != found["value"], "of three, one in ten is looked up"


def test_a_job_in_full_is_not_looked_up_and_its_latent_is_stored_all_the_same(place: Place) -> None:
    with Stand(place, ROUTE) as stand:
        (image,) = stand.answer([stand.taken(Request("r-0", "a red heart", 0), looks_up=False)])
    assert image.reuse is not None
    assert (image.reuse.miss, image.latent is None) == ("route", False)


def test_lookups_are_timed_among_the_rows_and_half_of_them_are_hits(place: Place) -> None:
    stored = ["a red heart", "two blue stars", "a boat"]
    with filled(place, stored):
        jobs = [sought(Request(f"l-{at}", prompt, at), ROUTE) for at, prompt in enumerate(["nothing alike", *stored])]
        with Stand(place, ROUTE) as stand:
            opens = opener(place.settings, place.store)
            assert opens is not None
            with contextlib.closing(opens(stand.terms)) as lookups:
                found = retrieval(lookups, jobs, stand.terms, place.engine.latent_space, lambda _count: None)
    assert (found["lookups"], found["hits"], found["unanswered"]) == (4, 3, 0)
    assert 0.0 < found["p50"] <= found["p99"]


def test_parts_are_timed_in_turns() -> None:
    called = list[str]()
    found = timed({"search": lambda at: called.append(f"s{at}"), "fetch": lambda at: called.append(f"f{at}")}, 2)
    assert called == ["s0", "f0", "s1", "f1"]
    assert found.keys() == {"search", "fetch"}


def test_percentiles_are_of_all_times() -> None:
    assert percentiles([1.0, 2.0, 3.0]) == {"p50": 2.0, "p99": 2.98}


def test_unrepeated_prompts_differ_and_those_of_another_draw_are_others() -> None:
    stored, timed = (requests.unrepeated(2, 200, draw) for draw in (requests.STORED, requests.TIMED))
    assert len(set(stored)) == 200
    assert stored == requests.unrepeated(2, 200, requests.STORED)
    assert len(set(stored) & set(timed)) < 10


def test_prompts_of_a_file_come_in_their_order_with_the_caption_that_each_states() -> None:
    found = requests.from_lines(["a red heart, trending", "the king of spain", "a star"], 1, 2)
    assert found.prompts == ("a red heart, trending", "the king of spain")
    assert found.captions[1] == "the king of spain"
    assert len(set(found.seeds)) == 2
