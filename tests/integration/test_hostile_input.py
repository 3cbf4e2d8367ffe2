"""Input made to end a role: each is answered, and the next prompt is painted. Every one of these once ended a role."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from schemas.messages import Status
from schemas.record import Outgoing
from schemas.topics import PROMPTS
from streams.producer import send_all
from streams.settings import load
from tests.integration.pipeline import Pipeline, running_pipeline

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def pipeline(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    settings = load({"home": broker_home, "kafka": {"prefix": "hostile", "session_timeout_ms": 3000}})
    with running_pipeline(settings, tmp_path_factory.mktemp("logs")) as pipeline:
        yield pipeline


def line(**fields: object) -> bytes:
    return json.dumps({"prompt": "a red heart", **fields}).encode()


@pytest.mark.parametrize(
    ("key", "value", "headers", "status"),
    [
        ("megabyte", line(request_id="megabyte", prompt="x" * 998_000), {}, Status.REJECTED),
        ("nested", b"[" * 500_000, {}, Status.FAILED),
        ("ancient", line(request_id="ancient", created_ms=-(2**63)), {}, Status.FAILED),
        ("headers", line(request_id="headers"), {"h": b"x" * 995_000}, Status.FAILED),
        ("tenant", line(request_id="tenant", tenant="x" * 990_000), {}, Status.REJECTED),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() and value.islower() else "",
)
def test_it_is_answered_and_the_next_prompt_is_painted(
    pipeline: Pipeline, key: str, value: bytes, headers: dict[str, bytes], status: Status
) -> None:
    record = Outgoing(topic=PROMPTS, key=key.encode(), value=value, headers=headers)
    send_all(pipeline.producer, [record], 30)
    after = pipeline.submit(5)
    (result,) = pipeline.wait_all([key])
    assert result.status == status
    assert {r.status for r in pipeline.wait_all(after)} == {Status.COMPLETED}
    pipeline.until(lambda: any(d.key == key.encode() for d in pipeline.dead_letters), "its bytes in the dlq")
    kept = next(d for d in pipeline.dead_letters if d.key == key.encode())
    if kept.headers["pochade_error_role"] == b"classifier":  # the ledger keeps the outcome that it could not use
        assert value.startswith(kept.value or b"-")
