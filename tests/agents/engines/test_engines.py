"""Engines: opened by name, honest about what is missing; the profile engine keeps the profile's time."""

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image

from agents.engines import (
    EngineFailed,
    Generated,
    GenerationTask,
    OpenedEngine,
    Previews,
    ShouldStop,
    WrongNumber,
    check_models,
    model_source,
    on_device,
    open_engine,
)
from planner.catalog.engines import ENGINES
from planner.catalog.entries import Loading
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.errors import Unknown
from schemas.messages import GenerateOptions
from streams.store.latents import UnfitLatent
from tests.builders import a_catalog, a_variant

HOW = resolve_options(GenerateOptions(), a_variant())


def a_task(request_id: str = "r-1") -> GenerationTask:
    return GenerationTask(request_id=request_id, prompt="a red heart", seed=7)


def test_an_unknown_engine_lists_the_known_ones() -> None:
    with pytest.raises(Unknown, match=rf"did you mean 'profile'\? known are {', '.join(ENGINES.names())}"):
        open_engine("profil", a_variant(), 1)


def test_the_profile_engine_takes_the_profiles_time_of_the_batch() -> None:
    engine = open_engine("profile", a_variant(latency_ms={1: 20.0, 4: 60.0}, load_ms=0.0), 1)
    for batch, least_s in ((1, 0.02), (4, 0.06)):
        begun = time.monotonic()
        generated = engine.generate([a_task(f"r-{n}") for n in range(batch)], HOW, lambda: False)
        assert time.monotonic() - begun >= least_s
        assert generated is not None
        assert len(generated.images) == batch


def test_the_profile_engine_takes_the_profiles_time_to_load() -> None:
    begun = time.monotonic()
    open_engine("profile", a_variant(load_ms=30.0), 1)
    assert time.monotonic() - begun >= 0.03


def test_the_profile_engine_draws_the_same_card_for_the_same_task_in_any_batch() -> None:
    engine = open_engine("profile", a_variant(latency_ms={1: 1.0}, load_ms=0.0), 1)
    alone = engine.generate([a_task()], HOW, lambda: False)
    together = engine.generate([a_task("r-2"), a_task()], HOW, lambda: False)
    assert alone is not None
    assert together is not None
    assert alone.images[0].tobytes() == together.images[1].tobytes() != together.images[0].tobytes()


def test_the_profile_engine_takes_less_time_for_what_is_skipped_and_draws_at_the_size_asked() -> None:
    engine, begun = (
        open_engine("profile", a_variant(latency_ms={1: 60_000.0}, load_ms=0.0, steps=1000), 1),
        time.monotonic(),
    )
    how = resolve_options(GenerateOptions(), a_variant(steps=1000, width=96), 999)
    generated = engine.generate([dataclasses.replace(a_task(), over=Image.new("RGB", (96, 32)))], how, lambda: False)
    assert 0.06 <= time.monotonic() - begun < 30
    assert generated is not None
    assert generated.images[0].size == (96, 32)


def test_the_profile_engine_stops_when_nobody_wants_the_batch() -> None:
    engine = open_engine("profile", a_variant(latency_ms={1: 60_000.0}, load_ms=0.0), 1)
    assert engine.generate([a_task()], HOW, lambda: True) is None


def test_the_profile_engine_gives_small_latents_and_begins_with_those_that_fit() -> None:
    engine = open_engine("profile", a_variant(latency_ms={1: 1.0}, load_ms=0.0, steps=4), 1)
    how, size = resolve_options(GenerateOptions(), a_variant(steps=4, width=96), 2), (96, a_variant().height)
    plain, asked = (engine.generate([a_task()], how, lambda: False, wants_latents=wants) for wants in (False, True))
    assert plain is not None
    assert asked is not None
    assert plain.images[0].tobytes() == asked.images[0].tobytes()
    assert plain.latents == [None]
    (latent,) = asked.latents
    assert latent is not None
    assert engine.latent_space is not None
    engine.latent_space.check(latent, *size)
    over = engine.generate([dataclasses.replace(a_task(), over=latent)], how, lambda: False)
    assert over is not None
    assert over.images[0].tobytes() != plain.images[0].tobytes(), "the card says what it began with"
    with pytest.raises(UnfitLatent, match="of autoencoder other"):
        engine.generate(
            [dataclasses.replace(a_task(), over=dataclasses.replace(latent, autoencoder="other"))], how, lambda: False
        )


def test_the_chaos_engine_gives_the_latents_of_the_profile_engine() -> None:
    engine = open_engine("chaos", a_variant(latency_ms={1: 1.0}, load_ms=0.0), 1)
    generated = engine.generate([a_task()], HOW, lambda: False, wants_latents=True)
    assert generated is not None
    assert generated.latents[0] is not None
    assert engine.latent_space is not None


@pytest.mark.parametrize("model", ["models/nowhere", "/nowhere", "./nowhere", "../nowhere"])
def test_a_model_folder_that_is_missing_is_named(model: str) -> None:
    with pytest.raises(EngineFailed, match=f"model folder '{model}' does not exist"):
        model_source(model)


def test_a_hub_id_is_passed_on_as_it_is() -> None:
    assert model_source("stabilityai/sdxl-turbo") == "stabilityai/sdxl-turbo"


def test_missing_models_are_reported_before_any_job_is_taken() -> None:
    catalog = a_catalog(
        variants=dict(a_catalog().variants, light=a_variant(engine="diffusers", model="models/nowhere"))
    )
    with pytest.raises(EngineFailed, match="nowhere"):
        check_models(catalog, "")
    check_models(catalog, "profile")  # which needs none


def test_a_worker_with_an_unknown_engine_does_not_begin() -> None:
    with pytest.raises(Unknown, match="unknown engine 'foo'"):
        check_models(a_catalog(), "foo")


class Least:
    """An engine of a user's own that has what is required, and no more."""

    def __init__(self, images: int = 1) -> None:
        self._images = images

    def close(self) -> None: ...

    def generate(self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop) -> Generated:  # noqa: ARG002
        return Generated([Image.new("RGB", (how.width, how.height))] * self._images, [None] * self._images)


def test_an_engine_with_the_two_methods_alone_generates_whatever_is_asked_beside() -> None:
    engine = OpenedEngine(Least())
    assert (engine.latent_space, engine.store, engine.is_compiled) == (None, None, False)
    assert (engine.encode([a_task()], HOW), engine.cuts("a", ""), engine.peak_device_bytes()) == (None, (), 0)
    generated = engine.generate([a_task()], HOW, lambda: False, wants_latents=True, previews=Previews({0: 1}, print))
    assert generated is not None
    assert generated.latents == [None]


def test_a_workers_device_replaces_the_catalogs_and_nothing_else() -> None:
    variant = a_variant(loading=Loading(device="cuda:0", dtype="bfloat16"))
    assert on_device(variant, "") is variant
    assert on_device(variant, "cuda:3").loading == Loading(device="cuda:3", dtype="bfloat16")


def test_a_device_that_the_variants_precision_does_not_allow_is_a_failure_to_load() -> None:
    with pytest.raises(EngineFailed, match=r"worker.device 'cpu'.*half precision is for accelerators"):
        on_device(a_variant(loading=Loading(dtype="float16")), "cpu")


def test_an_engine_that_gives_fewer_images_than_tasks_has_failed() -> None:
    with pytest.raises(WrongNumber, match="1 images and 1 latents for 2 tasks"):
        OpenedEngine(Least()).generate([a_task("r-1"), a_task("r-2")], HOW, lambda: False)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (lambda *_given: Least(), ""),
        (lambda *_given: 1 / 0, "engine 'theirs' cannot load it: ZeroDivisionError"),
        (lambda *_given: object(), "lacks `generate` or `close`"),
    ],
)
def test_what_a_package_s_engine_does_wrong_makes_a_worker_fail_and_not_end(
    monkeypatch: pytest.MonkeyPatch, load: Any, said: str
) -> None:
    monkeypatch.setattr(ENGINES, "check", lambda _name: None)
    monkeypatch.setattr(ENGINES, "load", lambda _name: load)
    with pytest.raises(EngineFailed, match=said) if said else contextlib.nullcontext():
        open_engine("theirs", a_variant(), 1)
