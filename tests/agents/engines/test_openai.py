"""The engine `openai`: asks a server in its own names, takes nothing that was not asked for, and ends what it began."""

import contextlib
import json
import pathlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.engines import CannotRefine, EngineFailed, GenerationTask, OpenedEngine, open_engine
from agents.engines import openai_client as module
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions, resolve_options
from planner.catalog.server import DIALECTS, Server
from replay.bench.image_server import ImageServer, Misbehaviour
from schemas.messages import GenerateOptions
from streams.clock import now_ms
from tests.builders import a_variant
from tests.patience import PATIENCE_S

RECORDED = pathlib.Path(__file__).parent / "request_models"
Opens = Callable[..., OpenedEngine]


def a_task(seed: int = 7, deadline_ms: float | None = None) -> GenerationTask:
    return GenerationTask(request_id=f"r-{seed}", prompt="a red heart", seed=seed, deadline_ms=deadline_ms)


def served_by(server: ImageServer, **changes: Any) -> Variant:
    given = {"url": server.url, "model": "tiny", "dialect": "vllm-omni"} | changes
    honours = given.pop("honours", () if given["dialect"] == "openai" else ("steps", "guidance", "negative_prompt"))
    return a_variant(engine="openai", server=Server(**given), honours=honours, load_ms=0.0)


def how_of(variant: Variant, **options: Any) -> ResolvedOptions:
    return resolve_options(GenerateOptions(**options), variant)


HOW = how_of(a_variant())


@pytest.fixture
def server() -> Iterator[ImageServer]:
    found = ImageServer().start()
    yield found
    found.close()


@pytest.fixture
def opened(server: ImageServer) -> Iterator[Opens]:
    with contextlib.ExitStack() as stack:

        def open_one(**changes: Any) -> OpenedEngine:
            engine = open_engine("openai", served_by(server, **changes), 1)
            stack.callback(engine.close)
            return engine

        yield open_one


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.01)


def never() -> bool:
    return False


# What is sent.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_field_that_is_sent_is_one_of_the_recorded_request_model(
    server: ImageServer, opened: Opens, dialect: str
) -> None:
    recorded = json.loads((RECORDED / f"{dialect}.json").read_text())
    assert recorded["dialect"] == dialect
    opened(dialect=dialect).generate(
        [a_task()], how_of(served_by(server, dialect=dialect), negative_prompt="fog"), never
    )
    (body,) = server.bodies
    kinds = {"text": str, "whole number": int, "number": (int, float)}
    for name, value in flat(body).items():
        kind = recorded["fields"][name].partition(" or ")[0]
        assert isinstance(value, kinds[kind]), name
        low, high = recorded["limits"].get(name, (0, 0)) if isinstance(value, int) else (0, 0)
        assert not high or low <= value <= high
    if "response_format" in body:
        assert body["response_format"] in recorded["limits"].get("response_format", ["b64_json"])


def flat(body: dict[str, Any], before: str = "") -> dict[str, Any]:
    found = {}
    for name, value in body.items():
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {before + name: value}
    return found


def test_a_server_is_asked_in_its_own_names_for_what_the_variant_honours(server: ImageServer, opened: Opens) -> None:
    variant = served_by(server, body={"extra_params": {"shift": 3}})
    asked = how_of(variant, steps=9, guidance=2.5, negative_prompt="fog", width=64, height=64)
    assert asked.overridden == ("size: 64x64 -> 32x32",)
    opened(body={"extra_params": {"shift": 3}}).generate([a_task()], asked, never)
    assert server.bodies == [
        {"prompt": "a red heart", "model": "tiny", "n": 1, "size": "32x32", "response_format": "b64_json", "seed": 7,
         "num_inference_steps": 9, "guidance_scale": 2.5, "negative_prompt": "fog", "extra_params": {"shift": 3}}
    ]  # fmt: skip


def test_the_variant_may_rename_a_field_and_leave_one_out(server: ImageServer, opened: Opens) -> None:
    fields = {"guidance": "true_cfg_scale", "steps": ""}
    asked = how_of(a_variant(honours=("guidance",)), guidance=4.0)
    opened(model="", fields=fields, honours=("guidance",)).generate([a_task()], asked, never)
    (body,) = server.bodies
    assert body["true_cfg_scale"] == 4.0
    assert not {"guidance_scale", "num_inference_steps", "model", "negative_prompt"} & body.keys()


def test_openai_s_own_models_are_sent_no_field_that_they_refuse(server: ImageServer, opened: Opens) -> None:
    opened(dialect="openai", body={"quality": "low"}).generate([a_task()], HOW, never)
    assert server.bodies == [{"prompt": "a red heart", "model": "tiny", "n": 1, "size": "32x32", "quality": "low"}]


# What comes back.


def test_each_task_has_the_image_of_its_own_seed(server: ImageServer, opened: Opens) -> None:
    generated = opened().generate([a_task(seed) for seed in (3, 4, 5)], HOW, never)
    assert generated is not None
    assert [image.getpixel((0, 0)) for image in generated.images] == [(3, 0, 0), (4, 0, 0), (5, 0, 0)]
    assert [image.mode for image in generated.images] == ["RGB"] * 3
    assert generated.latents == [None] * 3
    assert generated.times is not None
    assert server.most <= 3


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_the_usual_formats_are_read(server: ImageServer, opened: Opens, form: str) -> None:
    server.next.append(Misbehaviour(form=form))
    generated = opened().generate([a_task()], HOW, never)
    assert generated is not None
    assert generated.images[0].size == (32, 32)


def test_an_image_may_come_as_an_address_of_the_same_server(server: ImageServer, opened: Opens) -> None:
    server.next.extend([Misbehaviour(as_url="{origin}/file"), Misbehaviour(as_url="/file")])
    engine = opened()
    for _ in range(2):
        generated = engine.generate([a_task()], HOW, never)
        assert generated is not None
        assert generated.images[0].getpixel((0, 0)) == (7, 0, 0)


FAULTS = {
    "wrong size": (Misbehaviour(size="64x32"), "gives an image of 64x32 px where 32x32 were asked for: correct"),
    "wrong count": (Misbehaviour(count=2), "gives 2 images where 1 was asked for"),
    "none": (Misbehaviour(count=0), "gives 0 images where 1 was asked for"),
    "no image": (Misbehaviour(body=b'{"data": [{"b64_json": "aGVsbG8="}]}'), "gives no whole PNG, JPEG, WEBP"),
    "another format": (Misbehaviour(form="GIF"), "gives no whole PNG, JPEG, WEBP"),
    "no base64": (Misbehaviour(body=b'{"data": [{"b64_json": "!"}]}'), "gives neither base64 nor an https url"),
    "no JSON": (Misbehaviour(body=b"<html>"), "gives no JSON with images: b'<html>'"),
    "no data": (Misbehaviour(body=b'{"images": []}'), "gives no JSON with images"),
    "a plain address": (Misbehaviour(as_url="http://elsewhere/a.png"), "gives neither base64 nor an https url"),
    "a file": (Misbehaviour(as_url="file:///etc/hostname"), "gives neither base64 nor an https url"),
    "an address without image": (Misbehaviour(as_url="{origin}/none"), "gives an image at .*, which answers 404"),
    "cut": (Misbehaviour(is_cut=True), "broke off before its answer was whole"),
    "500": (Misbehaviour(status=500, body=b'{"detail": "out of  memory"}'), "answers 500: out of memory; see the serv"),
    "404": (
        Misbehaviour(status=404, body=b'{"error": {"message": "no such model"}}'),
        "404: no such model; correct serv",
    ),
    "400": (
        Misbehaviour(status=400, body=b'{"message": "Model mismatch"}'),
        "400: Model mismatch; correct server.body",
    ),
    "422": (Misbehaviour(status=422, body=b""), "answers 422; correct server.body or server.dialect"),
    "redirect": (
        Misbehaviour(status=307, headers={"location": "http://elsewhere/"}),
        "a redirect to 'http://elsewhere/', which is not followed; correct server.url",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_answer_is_an_error_that_says_so_and_no_image(
    server: ImageServer, opened: Opens, fault: str
) -> None:
    act, said = FAULTS[fault]
    server.next.append(act)
    engine = opened()
    with pytest.raises(module.ServerFault, match=said):
        engine.generate([a_task()], HOW, never)
    assert len(server.bodies) == 1, "what a server has begun is not asked for again"
    assert engine.generate([a_task()], HOW, never) is not None


def test_an_answer_has_a_largest_size(server: ImageServer, opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened()
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    server.next.append(Misbehaviour(body=b" " * (2 << 20)))
    with pytest.raises(module.ServerFault, match="gives more than 1 MB"):
        engine.generate([a_task()], HOW, never)


# Time.


def test_a_server_that_never_answers_ends_at_the_variant_s_limit(server: ImageServer, opened: Opens) -> None:
    server.next.append(Misbehaviour(hangs=True))
    with pytest.raises(module.ServerFault, match=r"gave no image within 0\.05 s, which is server\.timeout_s"):
        opened(timeout_s=0.05).generate([a_task()], HOW, never)
    assert server.cancelled.wait(PATIENCE_S)


def test_a_deadline_that_is_nearer_ends_it_and_the_last_one_of_a_call_counts(
    server: ImageServer, opened: Opens
) -> None:
    server.next.extend([Misbehaviour(hangs=True)] * 2)
    engine = opened(timeout_s=PATIENCE_S)
    near, nearer = now_ms() + 200, now_ms() + 20
    with pytest.raises(module.ServerFault, match=r"within 0\.\d+ s, which the request's deadline left"):
        engine.generate([a_task(1, near), a_task(2, nearer)], HOW, never)
    assert now_ms() >= near


def test_a_call_that_is_wanted_no_more_closes_its_connection(server: ImageServer, opened: Opens) -> None:
    server.next.append(Misbehaviour(hangs=True))
    engine = opened(timeout_s=PATIENCE_S)
    assert engine.generate([a_task()], HOW, server.begun.is_set) is None
    assert server.cancelled.wait(PATIENCE_S)
    assert engine.generate([a_task()], HOW, never) is not None, "its place is free again"


# What is asked for twice.


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_once_more(server: ImageServer, opened: Opens, status: int) -> None:
    server.next.append(Misbehaviour(status=status, headers={"retry-after": "0"}))
    engine = opened()
    assert engine.generate([a_task()], HOW, never) is not None
    server.next.extend([Misbehaviour(status=status)] * 2)
    with pytest.raises(module.ServerFault, match=f"answers {status}.*lower server.in_flight"):
        engine.generate([a_task()], HOW, never)
    assert len(server.bodies) == 4


def test_a_busy_server_that_says_later_than_the_time_allows_is_not_waited_for(
    server: ImageServer, opened: Opens
) -> None:
    server.next.append(Misbehaviour(status=429, headers={"retry-after": "60"}))
    with pytest.raises(module.ServerFault, match="answers 429"):
        opened(timeout_s=5.0).generate([a_task()], HOW, never)
    assert len(server.bodies) == 1


def test_a_server_that_comes_back_is_asked_once_more(
    server: ImageServer, opened: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    server.close()
    send, tries = engine._engine._client._send, list[bool]()  # type: ignore[attr-defined]

    async def sent(*given: Any) -> Any:
        tries.append(True)
        try:
            return await send(*given)
        except module.ServerAway:
            server.start()
            raise

    monkeypatch.setattr(engine._engine._client, "_send", sent)  # type: ignore[attr-defined]
    assert engine.generate([a_task()], HOW, never) is not None
    assert len(tries) == 2


def test_a_server_that_is_away_is_named_with_what_to_do(server: ImageServer, opened: Opens) -> None:
    engine = opened()
    server.close()
    with pytest.raises(module.ServerAway, match=r"cannot be connected to: .*; start the server, or"):
        engine.generate([a_task()], HOW, never)
    server.start()


# Keys.


@pytest.fixture
def key_file(server: ImageServer, tmp_path: pathlib.Path) -> pathlib.Path:
    server.key = "secret-1"
    file = tmp_path / "key"
    file.write_text("secret-1\n")
    return file


def test_a_key_is_read_from_its_file_and_again_once_it_is_refused(
    server: ImageServer, opened: Opens, key_file: pathlib.Path
) -> None:
    engine = opened(key_file=str(key_file))
    assert engine.generate([a_task()], HOW, never) is not None
    server.key = "secret-2"
    with pytest.raises(module.ServerFault, match="answers 401: Incorrect API key provided; put a valid key into serv"):
        engine.generate([a_task()], HOW, never)
    key_file.write_text("secret-2")
    assert engine.generate([a_task()], HOW, never) is not None


def test_a_key_goes_to_its_server_alone(server: ImageServer, key_file: pathlib.Path) -> None:
    other = ImageServer().start()
    try:
        client = module.Client(Server(url=server.url, key_file=str(key_file)))
        answer = client._run(client._send("GET", f"{other.origin}/file")).result()
        client.close()
        assert answer.status == 200
        assert other.keys == [("/file", "")]
    finally:
        other.close()


@pytest.mark.parametrize("text", [None, "", "one two"])
def test_a_key_file_without_a_key_refuses_to_load_and_shows_nothing_of_it(
    opened: Opens, tmp_path: pathlib.Path, text: str | None
) -> None:
    file = tmp_path / "key"
    if text is not None:
        file.write_text(text)
    with pytest.raises(EngineFailed, match=r"server\.key_file .* must be a file of one line, the key") as found:
        opened(key_file=str(file))
    assert "two" not in str(found.value)


# Loading.


def test_a_server_that_lacks_the_model_is_refused_with_those_that_it_has(opened: Opens) -> None:
    with pytest.raises(EngineFailed, match=r"variant 'light': .* has no model 'large', but tiny: correct server.model"):
        opened(model="large")


def test_a_server_that_wants_a_key_is_refused_without_one(server: ImageServer, opened: Opens) -> None:
    server.key = "secret"
    with pytest.raises(EngineFailed, match="answers 401: Incorrect API key provided; put a valid key into"):
        opened()


def test_a_server_that_is_not_there_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        variant = a_variant(server=Server(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
        with pytest.raises(EngineFailed, match=r"variant 'light': .* cannot be connected to: .*; start the server"):
            open_engine("openai", variant, 1)


def test_a_variant_without_a_server_is_refused() -> None:
    with pytest.raises(EngineFailed, match=r"has no server: add \[variants.light.server\]"):
        open_engine("openai", a_variant(), 1)


def test_a_draft_is_not_refined(opened: Opens) -> None:
    with pytest.raises(CannotRefine):
        opened().generate([a_task()], HOW._replace(refine_from_step=1), never)


# Several at once.


def test_it_allows_as_many_calls_as_its_server_takes_and_asks_for_no_more_images_at_once(
    server: ImageServer, opened: Opens
) -> None:
    server.service_s = 0.01
    engine = opened(in_flight=3)
    assert engine.calls_at_once == 3
    generated = engine.generate([a_task(seed) for seed in range(10)], HOW, never)
    assert generated is not None
    assert [image.getpixel((0, 0)) for image in generated.images] == [(seed, 0, 0) for seed in range(10)]
    assert server.most == 3


# Health.

FIGURES = {
    "vllm-omni": 'vllm_omni:num_requests_running{model="m"} 3.0\nvllm_omni:num_requests_waiting{model="m"} 5.0\n',
    "sglang": 'sglang:diffusion_num_running_reqs{role="a"} 3.0\nsglang:diffusion_num_queue_reqs{role="a"} 5.0\n',
}


@pytest.mark.parametrize("dialect", FIGURES)
def test_it_reports_the_server_s_health_and_requests(server: ImageServer, opened: Opens, dialect: str) -> None:
    server.metrics = f"# HELP num_requests_running of others\n{FIGURES[dialect]}"
    assert opened().health() in ("server: ok, 3.0 running, 5.0 waiting", "server: ok, 3.0 running, 5.0 queue")


def test_it_goes_on_asking_and_says_when_the_server_is_away(
    server: ImageServer, opened: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEALTH_S", 0.001)
    engine = opened()
    assert engine.health() == "server: ok"
    server.close()
    end_s = time.monotonic() + PATIENCE_S
    while "no answer about its health" not in engine.health():
        assert time.monotonic() < end_s, engine.health()
    server.start()


def test_a_server_without_such_endpoints_has_no_health() -> None:
    plain = ImageServer(has_health=False).start()
    try:
        engine = open_engine("openai", served_by(plain), 1)
        assert engine.health() == ""
        assert engine.generate([a_task()], HOW, never) is not None
        engine.close()
    finally:
        plain.close()
