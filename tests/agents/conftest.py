"""A deployment in this process on virtual time, in place of stubs of a broker."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from agents.classifier.judges import Judgement
from agents.in_process.deployment import InProcess
from schemas.messages import GenerateRequest
from streams.settings import load
from tests.agents.in_process import virtual_time
from tests.builders import a_catalog, a_plan
from tests.memory_store import MemoryImageStore

Story = Callable[[InProcess], Coroutine[Any, Any, Any]]


class StubJudge:
    """Every prompt is as hard."""

    name = "judge-1"

    def classify(self, prompt: str) -> Judgement:  # noqa: ARG002  the port's name
        return Judgement(0.5, {"models": "light"}, None)


class StubScorer:
    """Trusts drafts as a prompt says: "... 0.2"."""

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's names
        return [float(request.prompt.split()[-1]) for request in requests]


@pytest.fixture
def in_process() -> Callable[..., Any]:
    """Run a story with a deployment of two workers, `light` first and then by confidence to `heavy`."""

    def tell(story: Story, **changes: Any) -> Any:
        async def told() -> Any:
            usual: dict[str, Any] = {
                "settings": load({}), "workers": 2, "catalog": a_catalog(), "store": MemoryImageStore(),
                "judge": StubJudge(), "scorers": {"look": StubScorer()}, "takes_virtual_time": True,
                "plan": a_plan(allocation={"worker-1": "light", "worker-2": "heavy"}),
            }  # fmt: skip
            async with InProcess(**(usual | changes)) as deployment:
                return await story(deployment)

        return virtual_time.run(told())

    return tell
