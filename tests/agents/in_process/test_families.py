"""Every family of diffusers is served by all roles: a draft is kept, another is generated again by a second model."""

import asyncio
import json
from typing import Any

import pytest

from agents.in_process.deployment import InProcess
from planner.catalog.entries import Loading, Variant
from schemas.messages import GenerateRequest, Result, Status
from streams.clock import now_ms
from streams.settings import load
from tests.agents.conftest import StubJudge, StubScorer
from tests.agents.engines.test_families import DOES
from tests.builders import a_cascade, a_catalog, a_plan, a_variant
from tests.memory_store import MemoryImageStore
from tests.toys import Toys

pytestmark = pytest.mark.torch

TIMEOUT_S, POLL_S = 60, 0.02


def level(name: str, family: str, folder: str) -> Variant:
    does = DOES[family]
    return a_variant(
        name=name, engine="diffusers", model=folder, steps=2, guidance=3.0 if does.guidance else 0.0, width=64,
        height=64, call=does.call, loading=Loading(device="cpu"), quality=None,
    )  # fmt: skip


def served(light: Variant, heavy: Variant, *requests: GenerateRequest) -> list[Result]:
    """Return the results of requests that are sent to a deployment of one worker a level, once both are ready."""
    usual: dict[str, Any] = {
        "catalog": a_catalog(variants={"light": light, "heavy": heavy}), "store": MemoryImageStore(),
        "judge": StubJudge(), "scorers": {"look": StubScorer()},
    }  # fmt: skip
    plan = a_plan(
        created_ms=now_ms(), allocation={"worker-1": "light", "worker-2": "heavy"},
        cascades=(a_cascade(refine_from_step=1),),
    )  # fmt: skip

    async def story() -> list[Result]:
        async with InProcess(load({}), workers=2, plan=plan, **usual) as deployment:
            while [beat.heartbeat.state for beat in deployment.heartbeats.values()] != ["ready", "ready"]:
                await asyncio.sleep(POLL_S)
            return list(await asyncio.gather(*map(deployment.generate, requests)))

    return asyncio.run(asyncio.wait_for(story(), TIMEOUT_S))


def a_request(trust: float) -> GenerateRequest:
    return GenerateRequest(request_id=f"r-{trust}", prompt=f"a red ball {trust}", created_ms=now_ms(), seed=5)


def stages(result: Result) -> list[dict[str, Any]]:
    assert result.status is Status.COMPLETED, result.reason
    path: list[dict[str, Any]] = json.loads(result.path)
    return path


@pytest.mark.parametrize("family", DOES)
def test_a_family_is_served_with_a_cascade_from_its_drafts(family: str, toys: Toys) -> None:
    light, heavy = level("light", family, toys(family)), level("heavy", family, toys(family, seed=1))
    kept, again = map(stages, served(light, heavy, a_request(0.9), a_request(0.1)))
    assert [stage["level"] for stage in kept] == ["light"]
    assert [stage["level"] for stage in again] == ["light", "heavy"]
    assert again[1]["paint_over_step"] == int(DOES[family].begins), "others generate from noise"
    images = [stage["image"] for stage in (*kept, *again)]
    assert {(image["width"], image["height"]) for image in images} == {(64, 64)}
    assert len({image["sha256"] for image in images}) == 3
