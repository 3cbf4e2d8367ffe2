"""The clients of OpenAI and Replicate, and LiteLLM, unchanged, against the gateways of a running pipeline.

Each is installed in an environment of its own: they pin what the product has in other versions.
"""

import base64
import contextlib
import io
import itertools
import json
import pathlib
import re
import socket
import socketserver
import statistics
import threading
from collections.abc import Iterator

import httpx
import pytest
from PIL import Image

from replay.local.processes import RoleProcess, role_process
from streams.clock import now_ms
from streams.control.api_keys import store
from streams.kafka.topics import create_topics
from streams.security.api_keys import new_key
from streams.security.scopes import SCOPES
from streams.settings import load
from tests.integration.pipeline import ROLES, Pipeline
from tests.integration.receiver import Receiver, receiving
from tests.integration.waiting import poll_until
from tests.nightly.official_clients import Where, said
from tests.paths import ROOT

POLICY = "diffserve-static"  # under which some of any forty images escalate
PROFILE = ROOT / "infra" / "catalogs" / "profile.toml"

OPENAI = """
import asyncio, base64, json, sys, time
import openai
where = {"base_url": sys.argv[1] + "/v1", "api_key": sys.argv[2], "max_retries": 2}
client = openai.OpenAI(**where)
made = client.images.generate(prompt="a red heart", model="auto", n=2, quality="xhigh", size="auto",
                              output_format="webp", output_compression=80, background="auto", user="me")
raw = client.images.with_raw_response.generate(prompt="a blue boat", extra_body={"seed": 7})
by_url = client.images.generate(prompt="a star", response_format="url")
picture, mask = (base64.b64decode(each) for each in ("PICTURE", "MASK"))
edited = client.images.edit(image=picture, prompt="a blue boat", extra_body={"strength": 0.5})
masked = client.images.edit(image=[("a.png", picture)], mask=("m.png", mask), prompt="a star", n=2, quality="high",
                            output_format="webp", output_compression=80, response_format="url")
editing = list(client.images.edit(image=picture, prompt="a cat", stream=True, partial_images=1))
async def several():
    async with openai.AsyncOpenAI(**where) as many:
        async def stream(n):
            begun_s, told = time.monotonic(), []
            async for each in await many.images.generate(prompt=f"a sun, {n}", stream=True, partial_images=2):
                told.append([each.type, each.pochade["escalated"] if "completed" in each.type else None,
                             round(1000 * (time.monotonic() - begun_s))])
            return told
        suns = await asyncio.gather(*(stream(n) for n in range(40)))
        return suns, await asyncio.gather(*(many.images.generate(prompt=f"a cat, {n}") for n in range(4)))
suns, cats = asyncio.run(several())
streamed = list(client.images.generate(prompt="a small dog", stream=True, partial_images=3, output_format="jpeg"))
unedited = []
for asked in ({"image": [picture, picture]}, {"input_fidelity": "high"}, {"image": b"<svg/>"}, {"mask": picture},
              {"prompt": ""}):
    try:
        client.images.edit(**{"image": picture, "prompt": "a", **asked})
        unedited.append("made")
    except openai.BadRequestError as error:
        unedited.append([error.param, error.code])
refused = []
for asked in ({"prompt": ""}, {"prompt": "a", "n": 99}, {"prompt": "a", "background": "transparent"},
              {"prompt": "a", "model": "huge"}, {"prompt": "a", "partial_images": 2}):
    try:
        client.images.generate(**asked)
        refused.append("made")
    except (openai.BadRequestError, openai.NotFoundError) as error:
        refused.append([error.status_code, error.param, error.code, error.type])
try:
    client.images.generate(prompt="a green tree", extra_body={"deadline_ms": int(1000 * time.time()) - 1})
    late = "made"
except openai.BadRequestError as error:
    late = [error.status_code, error.param]
try:
    openai.OpenAI(**{**where, "api_key": "guessed"}).models.list()
    guessed = 200
except openai.AuthenticationError as error:
    guessed = error.status_code
print(json.dumps({
    "edited": base64.b64decode(edited.data[0].b64_json)[1:4].decode(), "unedited": unedited,
    "masked": [each.url for each in masked.data], "editing": [each.type for each in editing],
    "suns": suns, "streamed": [each.type for each in streamed], "partials": [
        each.partial_image_index for each in streamed[:-1]], "guessed": guessed,
    "last": base64.b64decode(streamed[-1].b64_json)[6:10].decode(), "sizes": [streamed[-1].size, made.size],
    "images": [base64.b64decode(each.b64_json)[8:12].decode() for each in made.data],
    "quality": made.quality, "format": made.output_format, "told": made.safety_identifier,
    "request_id": raw.headers["x-request-id"], "seeded": raw.parse().model_extra["pochade"]["request_id"],
    "url": by_url.data[0].url, "several": len(cats), "refused": refused, "late": late,
    "models": [each.id for each in client.models.list()], "model": client.models.retrieve("auto").id,
}))
"""

REPEATS = """
import base64, json, sys
import openai
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=2)
if len(sys.argv) > 3:
    image = base64.b64decode(sys.argv[3])
    raw = client.images.with_raw_response.edit(image=image, prompt="a boat that is cut", extra_body={"seed": 7})
else:
    raw = client.images.with_raw_response.generate(prompt="a heart that is cut")
print(json.dumps({"request_id": raw.headers["x-request-id"], "retries": raw.retries_taken}))
"""

LITELLM = """
import base64, json, sys
import litellm
litellm.suppress_debug_info = True  # which it prints
where = {"model": "openai/auto", "api_base": sys.argv[1] + "/v1", "api_key": sys.argv[2]}
made = litellm.image_generation(prompt="a red heart", n=2, **where)
try:
    litellm.image_generation(prompt="", **where)
    refused = "made"
except litellm.BadRequestError as error:
    refused = str(error)
print(json.dumps({"images": [base64.b64decode(each.b64_json)[1:4].decode() for each in made.data], "refused": refused}))
"""

REPLICATE = """
import json, sys, time
import replicate
from replicate.exceptions import ReplicateError
client = replicate.Client(api_token=sys.argv[2], base_url=sys.argv[1])
begun = client.predictions.create(version="auto", input={"prompt": "a red heart", "n": 2})
first = begun.status
begun.wait()
output = client.run("pochade/auto", input={"prompt": "a blue boat", "seed": 7})
waited = client.predictions.create(version="auto", input={"prompt": "a star"}, wait=30)
streamed = list(client.stream("pochade/auto", input={"prompt": "a small dog"}))
cancelled = client.predictions.create(version="auto", input={"prompt": "a green tree", "n": 8})
cancelled.cancel()
cancelled.wait()
refused = []
for asked in ({"version": "auto", "input": {"prompt": ""}},
              {"version": "auto", "input": {"prompt": "a"}, "webhook": "https://10.0.0.1"}):
    try:
        client.predictions.create(**asked)
        refused.append("made")
    except ReplicateError as error:
        refused.append([error.status, error.title, error.detail])
try:
    client.run("pochade/huge", input={"prompt": "a black cat"})
    failed = "made"
except ReplicateError as error:
    failed = [error.status, error.title, "pochade/NAME" in error.detail]
import base64, io
def outline():
    file = io.BytesIO(base64.b64decode("PICTURE"))
    file.name = "a.png"
    return file
worded = client.predictions.create(version="heavy", input={"prompt": "a sun", "num_outputs": 2, "image": outline(),
                                                           "aspect_ratio": "3:2", "priority": "interactive"})
worded.wait()
inline = client.predictions.create(version="heavy", input={"prompt": "a sun", "image": outline()},
                                   file_encoding_strategy="base64")
inline.wait()
again = client.predictions.create(version="heavy", input={"prompt": "a sun", "image": begun.output[0]})
again.wait()
model = client.models.get("pochade/auto")
model = [model.owner, model.name, model.name in [each.name for each in client.models.list()]]
hooked = client.predictions.create(version="auto", input={"prompt": "a red house"}, webhook=sys.argv[3],
                                   webhook_events_filter=["completed"])
hooked.wait()
print(json.dumps({
    "model": model, "hooked": hooked.id, "secret": client.webhooks.default.secret().key,
    "events": [each.event.value for each in streamed], "ids": [each.id for each in streamed],
    "outputs": [str(each) for each in streamed if each.event.value == "output"],
    "first": first, "status": begun.status, "output": begun.output, "run": [str(each) for each in output],
    "waited": waited.status, "cancelled": cancelled.status, "refused": refused, "failed": failed,
    "listed": [each.id for each in client.predictions.list()], "id": begun.id,
    "worded": worded.input, "outputs_of": [len(each.output or []) for each in (worded, inline, again)],
    "got": client.predictions.get(begun.id).status, "took": begun.metrics["predict_time"],
}))
"""


VERIFIES = """
import json, sys
from replicate.webhook import InvalidSignatureError, Webhooks, WebhookSigningSecret
headers, body, secret = json.loads(sys.argv[3])
secret = WebhookSigningSecret(key=secret)
Webhooks.validate(headers=headers, body=body, secret=secret, tolerance=300)
try:
    Webhooks.validate(headers=headers, body=body + " ", secret=secret)
    altered = "taken"
except InvalidSignatureError:
    altered = "refused"
print(json.dumps({"altered": altered}))
"""


class Keyed(Pipeline):
    """A pipeline of which one gateway asks for API keys."""

    def process(self, name: str) -> RoleProcess:
        options = [*self._options, "--set", "gateway.authentication=bearer"]
        return role_process(name, self._roles[name], options, {}) if name == "keyed" else super().process(name)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        receiver.takes.set()
        yield receiver


@pytest.fixture(scope="module")
def gateways(
    broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[dict[str, Where]]:
    catalog = tmp_path_factory.mktemp("catalog") / "edits.toml"  # the shipped one, whose heavy begins with images
    catalog.write_text(PROFILE.read_text().replace("[variants.heavy]", '[variants.heavy]\nhonours = ["image", "mask"]'))
    settings = load(
        {"home": broker_home, "kafka": {"prefix": "clients"}, "catalog": str(catalog), "planner": {"policy": POLICY}}
    )
    create_topics(settings, ["light", "heavy"])
    key, known = new_key("studio", SCOPES, now_ms())
    store(settings, known)
    roles, logs = {**ROLES, "open": ["gateway"], "keyed": ["gateway"]}, tmp_path_factory.mktemp("logs")
    extra = ["gateway.port=0", f"gateway.webhooks.internal={receiver.origin}"]
    pipeline = Keyed(settings, logs, catalog=str(catalog), extra=extra, roles=roles)
    try:
        pipeline.start()
        yield {
            name: Where(re.findall(r"images API on (\S+)/v1", pipeline.log(name))[-1], known_key)
            for name, known_key in (("open", "none"), ("keyed", key))
        }
    finally:
        pipeline.close()


@pytest.fixture(params=["open", "keyed"])
def where(request: pytest.FixtureRequest, gateways: dict[str, Where]) -> Where:
    return gateways[request.param]


def png(*, hole: bool = False) -> str:
    """An image in base64; with a hole its left half is transparent."""
    out, image = io.BytesIO(), Image.new("RGBA", (48, 32), "red")
    if hole:
        image.paste((0, 0, 0, 0), (0, 0, 24, 32))
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@contextlib.contextmanager
def cutting(address: str) -> Iterator[str]:
    """An address that leads to another, where the first answer is lost on its way."""
    connections, (host, port) = itertools.count(), address.removeprefix("http://").split(":")

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            is_cut = next(connections) == 0
            with socket.create_connection((host, int(port))) as gateway:
                threading.Thread(target=copy, args=(self.request, gateway), daemon=True).start()
                while part := gateway.recv(65536):
                    if is_cut:
                        return
                    self.request.sendall(part)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def copy(client: socket.socket, gateway: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := client.recv(65536):
            gateway.sendall(part)


@pytest.mark.parametrize(("prompt", "more"), [("a heart that is cut", ()), ("a boat that is cut", (png(),))])
def test_openais_client_whose_first_answer_is_cut_gets_its_image_and_no_second_is_generated(
    where: Where, prompt: str, more: tuple[str, ...]
) -> None:
    with cutting(where.address) as address:
        told = said("openai", REPEATS, where._replace(address=address), *more)
    headers = {"authorization": f"Bearer {where.key}"}
    listed = httpx.get(f"{where.address}/v1/predictions", headers=headers, trust_env=False).json()["results"]
    assert told["retries"] == 1
    assert [each["id"] for each in listed if each["input"]["prompt"] == prompt] == [told["request_id"]]


def test_litellm_generates_and_reads_refusals(where: Where) -> None:
    told = said("litellm", LITELLM, where)
    assert told["images"] == ["PNG", "PNG"]
    assert "prompt must not be empty" in told["refused"]


def test_openais_client_generates_and_reads_refusals(where: Where) -> None:
    told = said("openai", OPENAI.replace("PICTURE", png()).replace("MASK", png(hole=True)), where)
    assert told["edited"] == "PNG"
    assert [each.startswith(f"{where.address}/v1/files/") for each in told["masked"]] == [True, True]
    assert told["editing"] == ["image_edit.partial_image", "image_edit.completed"]  # a preview of heavy's steps
    assert told["unedited"] == [
        ["image", "unsupported"], ["input_fidelity", "unsupported"], ["image", "invalid"], ["mask", "invalid"],
        ["prompt", "invalid"],
    ]  # fmt: skip
    assert told["images"] == ["WEBP", "WEBP"]
    assert (told["quality"], told["format"], told["told"]) == ("xhigh", "webp", "me")
    assert told["request_id"] == told["seeded"]
    assert told["url"].startswith(f"{where.address}/v1/files/")
    assert told["several"] == 4
    for types in (told["streamed"], *([kind for kind, *_ in sun] for sun in told["suns"])):
        assert types == ["image_generation.partial_image"] * (len(types) - 1) + ["image_generation.completed"]
    refined = [sun for sun in told["suns"] if sun[-1][1]]
    assert refined, "with f(t) = t and threshold 0.3 some of 40 must escalate"
    shown = [sun for sun in refined if len(sun) > 1]
    assert len(shown) >= len(refined) - 1, told["suns"]  # a note may be read later than its result
    print(f"{len(refined)} of 40 escalated, {len(shown)} showed their draft; medians: draft", end=" ")
    print(*(statistics.median(sun[n][2] for sun in shown) for n in (0, -1)), "ms the image")
    assert told["partials"] == list(range(len(told["partials"])))
    assert (told["last"], len(set(told["sizes"]))) == ("JFIF", 1)
    assert told["guessed"] == (200 if where.key == "none" else 401)
    assert told["refused"] == [
        [400, "prompt", "invalid", "invalid_request_error"],
        [400, "n", "invalid", "invalid_request_error"],
        [400, "background", "unsupported", "invalid_request_error"],
        [404, "model", "model_not_found", "invalid_request_error"],
        [400, "partial_images", "unsupported", "invalid_request_error"],
    ]
    assert told["late"] == [400, "deadline_ms"]
    assert told["model"] == told["models"][0] == "auto"


def test_replicates_client_creates_waits_lists_cancels_and_verifies_webhooks(where: Where, receiver: Receiver) -> None:
    told = said("replicate", REPLICATE.replace("PICTURE", png()), where, receiver.origin)
    poll_until(lambda: told["hooked"] in [json.loads(body)["id"] for _, body in receiver.taken], "its webhook")
    ((headers, body),) = [taken for taken in receiver.taken if json.loads(taken[1])["id"] == told["hooked"]]
    signed = {name.lower(): value for name, value in headers.items()}
    verified = said("replicate", VERIFIES, where, json.dumps([signed, body.decode(), told["secret"]]))
    assert verified == {"altered": "refused"}
    assert told["outputs_of"] == [2, 1, 1]
    assert (told["worded"]["n"], told["worded"]["tier"]) == (2, "interactive")
    assert told["first"] in ("starting", "processing")
    assert (told["status"], told["got"], told["waited"]) == ("succeeded", "succeeded", "succeeded")
    assert len(told["output"]) == 2
    assert len(told["run"]) == 1
    assert told["run"][0].startswith(f"{where.address}/v1/files/")
    assert told["events"] == ["logs"] * (len(told["events"]) - 2) + ["output", "done"]
    assert len(set(told["ids"])) == len(told["ids"])
    assert [each.startswith(f"{where.address}/v1/files/") for each in told["outputs"]] == [True]
    assert told["cancelled"] in ("canceled", "succeeded")  # which of both came first
    assert [each[:2] for each in told["refused"]] == [[400, "invalid"], [400, "webhook"]]
    assert told["refused"][0][2].startswith("prompt must not be empty")
    assert told["failed"] == [404, "model_not_found", True]
    assert told["model"] == ["pochade", "auto", True]
    assert told["id"] in told["listed"]
    assert told["took"] > 0
