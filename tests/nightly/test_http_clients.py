"""The official clients of OpenAI and Replicate, unchanged, against the gateway of a running pipeline.

Each is installed in an environment of its own: they pin what the product has in other versions.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.pipeline import ROLES, Pipeline
from tests.paths import ROOT

CLIENTS = {"openai": "openai==3.57.0", "replicate": "replicate==1.0.7"}
KEPT = ROOT / ".pochade" / "tests" / "clients"  # as the wheels of other tests

OPENAI = """
import asyncio, base64, json, sys
import openai
where = {"base_url": sys.argv[1] + "/v1", "api_key": "none", "max_retries": 2}
client = openai.OpenAI(**where)
made = client.images.generate(prompt="a red heart", model="auto", n=2, quality="xhigh", size="auto",
                              output_format="webp", output_compression=80, background="auto", user="me")
raw = client.images.with_raw_response.generate(prompt="a blue boat", extra_body={"seed": 7})
by_url = client.images.generate(prompt="a star", response_format="url")
async def several():
    async with openai.AsyncOpenAI(**where) as many:
        return await asyncio.gather(*(many.images.generate(prompt=f"a cat, {n}") for n in range(4)))
refused = []
for asked in ({"prompt": ""}, {"prompt": "a", "n": 99}, {"prompt": "a", "background": "transparent"},
              {"prompt": "a", "model": "huge"}, {"prompt": "a", "stream": True}):
    try:
        client.images.generate(**asked)
        refused.append("made")
    except openai.BadRequestError as error:
        refused.append([error.status_code, error.param, error.code, error.type])
try:
    client.images.generate(prompt="a green tree", extra_body={"deadline_ms": 1})
    late = "made"
except openai.InternalServerError as error:
    late = [error.status_code, error.code, error.request_id]
print(json.dumps({
    "images": [base64.b64decode(each.b64_json)[8:12].decode() for each in made.data],
    "quality": made.quality, "format": made.output_format, "told": made.safety_identifier,
    "request_id": raw.headers["x-request-id"], "seeded": raw.parse().model_extra["pochade"]["request_id"],
    "url": by_url.data[0].url, "several": len(asyncio.run(several())), "refused": refused, "late": late,
    "models": [each.id for each in client.models.list()], "model": client.models.retrieve("auto").id,
}))
"""

REPLICATE = """
import json, sys, time
import replicate
from replicate.exceptions import ModelError, ReplicateError
client = replicate.Client(api_token="none", base_url=sys.argv[1])
begun = client.predictions.create(version="auto", input={"prompt": "a red heart", "n": 2})
first = begun.status
begun.wait()
output = client.run("pochade/auto", input={"prompt": "a blue boat", "seed": 7})
waited = client.predictions.create(version="auto", input={"prompt": "a star"}, wait=30)
cancelled = client.predictions.create(version="auto", input={"prompt": "a green tree", "n": 8})
cancelled.cancel()
cancelled.wait()
refused = []
for asked in ({"version": "auto", "input": {"prompt": ""}},
              {"version": "auto", "input": {"prompt": "a"}, "webhook": "https://example.org"}):
    try:
        client.predictions.create(**asked)
        refused.append("made")
    except ReplicateError as error:
        refused.append([error.status, error.title, error.detail])
try:
    client.run("pochade/huge", input={"prompt": "a black cat"})
    failed = "made"
except ModelError as error:
    failed = [error.prediction.status, error.prediction.error]
print(json.dumps({
    "first": first, "status": begun.status, "output": begun.output, "run": [str(each) for each in output],
    "waited": waited.status, "cancelled": cancelled.status, "refused": refused, "failed": failed,
    "listed": [each.id for each in client.predictions.list()], "id": begun.id,
    "got": client.predictions.get(begun.id).status, "took": begun.metrics["predict_time"],
}))
"""


@pytest.fixture(scope="module")
def address(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = load({"home": broker_home, "kafka": {"prefix": "clients"}, "catalog": "profile"})
    create_topics(settings, ["light", "heavy"])
    roles, logs = {**ROLES, "gateway": ["gateway"]}, tmp_path_factory.mktemp("logs")
    pipeline = Pipeline(settings, logs, extra=["gateway.port=0"], roles=roles)
    try:
        pipeline.start()
        yield re.findall(r"images API on (\S+)/v1", pipeline.log("gateway"))[-1]
    finally:
        pipeline.close()


def said(client: str, script: str, address: str) -> Any:
    """What a script prints, run with a client's own environment."""
    home = KEPT / CLIENTS[client].replace("==", "-")
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", CLIENTS[client]], check=True)
        (home / "installed").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["NO_PROXY"] = environment["no_proxy"] = "127.0.0.1"
    command = [str(python), "-c", script, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_openais_client_generates_and_reads_refusals(address: str) -> None:
    told = said("openai", OPENAI, address)
    assert told["images"] == ["WEBP", "WEBP"]
    assert (told["quality"], told["format"], told["told"]) == ("xhigh", "webp", "me")
    assert told["request_id"] == told["seeded"]
    assert told["url"].startswith(f"{address}/v1/files/")
    assert told["several"] == 4
    assert told["refused"] == [
        [400, "prompt", "invalid", "invalid_request_error"],
        [400, "n", "invalid", "invalid_request_error"],
        [400, "background", "unsupported", "invalid_request_error"],
        [400, None, "unhonoured", "invalid_request_error"],
        [400, "stream", "unsupported", "invalid_request_error"],
    ]
    assert told["late"][:2] == [504, "deadline"]
    assert told["model"] == told["models"][0] == "auto"


def test_replicates_client_creates_waits_lists_and_cancels(address: str) -> None:
    told = said("replicate", REPLICATE, address)
    assert told["first"] in ("starting", "processing")
    assert (told["status"], told["got"], told["waited"]) == ("succeeded", "succeeded", "succeeded")
    assert len(told["output"]) == 2
    assert len(told["run"]) == 1
    assert told["run"][0].startswith(f"{address}/v1/files/")
    assert told["cancelled"] in ("canceled", "succeeded")  # which of both came first
    assert [each[:2] for each in told["refused"]] == [[400, "invalid"], [400, "unsupported"]]
    assert told["refused"][0][2].startswith("prompt must not be empty")
    assert told["failed"][0] == "failed"
    assert told["failed"][1].startswith("unhonoured: ")
    assert told["id"] in told["listed"]
    assert told["took"] > 0
