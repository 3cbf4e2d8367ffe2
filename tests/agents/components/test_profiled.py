"""The engine `profile` with components: moves take what was measured, and heartbeats have something to say."""

import dataclasses

import pytest

from agents.components.opening import Keeping
from agents.components.profiled import open_profiled
from agents.engines import EngineFailed, GenerationTask, open_engine
from planner.catalog.entries import Variant
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from schemas.messages import GenerateOptions
from streams import catalogs
from streams.settings import WorkerComponentSettings


def quick() -> Variant:
    """The shipped styles, with calls of a millisecond."""
    styles = catalogs.load("tiny").level("styles")
    timed = tuple(
        dataclasses.replace(each, load_ms={"remote": 9, "volume": 4, "host": 1}) for each in styles.components
    )
    return dataclasses.replace(styles, components=timed, latency_ms={1: 1.0}, load_ms=1.0)


def test_a_move_sleeps_for_as_long_as_it_was_measured_from_where_the_component_lies() -> None:
    slept: list[float] = []
    store = open_profiled(quick(), Keeping(), slept.append)
    assert store is not None
    store.bring(["base:poster"])
    assert slept == [0.005, 0.003, 0.001]
    store.evict("base:poster", Tier.DEVICE)
    store.bring(["base:poster"])
    assert slept[3:] == [0.001]
    assert store.report().hits == {"remote": 1, "host": 1}
    store.close()


def test_the_engine_brings_what_a_request_names_and_says_how_long_that_took() -> None:
    variant = quick()
    engine = open_engine("profile", variant, 1, Keeping())
    assert engine.store is not None
    assert engine.store.resident_ids(Tier.DEVICE) == {"base:poster"}
    how = resolve_options(GenerateOptions(adapters=("mint",)), variant)
    made = engine.generate([GenerationTask(request_id="r", prompt="p", seed=1)], how, lambda: False)
    assert made is not None
    assert made.times is not None
    assert made.times.load_ms >= 9
    report = engine.store.report()
    assert report.held["device"] == ("adapter:mint", "base:poster")
    assert report.hits == {"device": 1, "remote": 1}
    engine.close()


def test_a_request_that_does_not_fit_the_device_fails_with_the_reason() -> None:
    variant = quick()
    engine = open_engine("profile", variant, 1, Keeping(settings=WorkerComponentSettings(device_bytes=4_000_000)))
    how = resolve_options(GenerateOptions(adapters=("mint",)), variant)
    with pytest.raises(EngineFailed, match="must fit the device together: 4115198 bytes, budget 4000000"):
        engine.generate([GenerationTask(request_id="r", prompt="p", seed=1)], how, lambda: False)
    engine.close()
