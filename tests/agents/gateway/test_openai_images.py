"""A body of OpenAI's images API becomes a request in the pipeline's words, or a refusal that names its parameter."""

import dataclasses
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.gateway.formats import Format, encoded
from agents.gateway.openai_images import PARAMS, ImagesRequest, answer, parse
from agents.gateway.refusals import INVALID, KINDS, Refusal, refusal_of
from planner.serving.admission.admission import check
from planner.serving.ending.ledger import result_of
from schemas.messages import GenerateOptions, Made, Result, Status
from streams.codec.prompt_file import request_of
from streams.settings import Requests
from tests.builders import NOW_MS, an_outcome
from tests.replay.runs import a_result, a_step

LIMITS = Requests()
DEADLINE_MS = NOW_MS + 300_000


def parsed(**body: Any) -> ImagesRequest:
    return parse({"prompt": "a red heart", **body}, LIMITS, NOW_MS, DEADLINE_MS)


@pytest.mark.parametrize(
    ("stated", "options"),
    [
        ({}, {}),
        ({"n": 3}, {"n": 3}),
        ({"size": "64x48"}, {"width": 64, "height": 48}),
        ({"size": "auto", "model": "auto"}, {}),
        ({"model": "poster"}, {"model": "poster"}),
        ({"negative_prompt": "blue", "steps": 12}, {"negative_prompt": "blue", "steps": 12}),
        ({"adapters": ["candy"], "adapter_weights": [0.8]}, {"adapters": ("candy",), "adapter_weights": (0.8,)}),
        ({"strict": False}, {"strict": False}),
        ({"n": None, "size": None, "quality": None, "user": None, "stream": None}, {}),
    ],
)  # fmt: skip
def test_what_is_stated_is_asked_for_strictly(stated: dict[str, Any], options: dict[str, Any]) -> None:
    asked = parsed(**stated).request
    assert asked.options == GenerateOptions(**{"strict": True, **options})
    assert (asked.prompt, asked.created_ms, asked.deadline_ms) == ("a red heart", NOW_MS, DEADLINE_MS)
    assert (asked.seed, asked.tier, asked.tenant) == (None, "standard", "default")


@pytest.mark.parametrize(
    ("name", "quality"),
    [("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "high"), ("max", "high"), ("auto", "auto"),
     ("standard", "medium"), ("hd", "high")],
)  # fmt: skip
def test_every_name_of_a_quality_is_one_of_the_pipelines(name: str, quality: str) -> None:
    assert parsed(quality=name).request.quality == quality


def test_the_pipelines_own_fields_are_taken_and_an_earlier_deadline_holds() -> None:
    asked = parsed(seed=7, tier="interactive", deadline_ms=NOW_MS + 500, reuse="own").request
    assert (asked.seed, asked.tier, asked.deadline_ms, asked.options.reuse) == (7, "interactive", NOW_MS + 500, "own")


@pytest.mark.parametrize(
    ("stated", "param", "said"),
    [
        ({"prompt": ""}, "prompt", "prompt must not be empty: got ''"),
        ({"prompt": None}, "prompt", 'request field "prompt" is missing'),
        ({"prompt": 7}, "prompt", "request field 'prompt' must be a string: got 7"),
        ({"prompt": "a" * 9000}, "prompt", "at most 8192 bytes of UTF-8: got 9000"),
        ({"prompt": "a\ud800"}, "prompt", "valid Unicode"),
        ({"n": 0}, "n", "n must be from 1 to 8: got 0"),
        ({"n": 9}, "n", "n must be from 1 to 8: got 9"),
        ({"n": True}, "n", "request field 'n' must be an integer"),
        ({"size": "1024"}, "size", "size must be WIDTHxHEIGHT in px, such as 768x512: got '1024'"),
        ({"size": 64}, "size", "got 64"),
        ({"size": "60x64"}, "size", "width must be a multiple of 8 px: got 60"),
        ({"size": "64x8192"}, "size", "height must be from 8 to 4096: got 8192"),
        ({"quality": "ultra"}, "quality", "quality must be one of low, medium, high, auto: got 'ultra'"),
        ({"quality": 5}, "quality", "request field 'quality' must be a string"),
        ({"model": 5}, "model", "request field 'model' must be a string"),
        ({"seed": -1}, "seed", "seed must be in [0, 2**63): got -1"),
        ({"tier": "gold"}, "tier", "tier must be one of interactive, standard, batch: got 'gold'"),
        ({"guidance": float("nan")}, "guidance", "guidance must be from 0 to 50: got nan"),
        ({"image": "file:///etc/passwd"}, "image", "image must be the URI of an image in the store"),
        ({"deadline_ms": DEADLINE_MS + 1}, "deadline_ms", "at most 300000 ms ahead (gateway.wait_s)"),
        ({"output_format": "gif"}, "output_format", "output_format must be one of png, jpeg, webp: got 'gif'"),
        ({"output_format": ["png"]}, "output_format", "output_format must be one of png, jpeg, webp"),
        ({"output_compression": 101}, "output_compression", "must be a whole number from 0 to 100: got 101"),
        ({"output_compression": 50}, "output_compression", "must come with output_format jpeg or webp"),
        ({"response_format": "bytes"}, "response_format", "response_format must be one of b64_json, url"),
        ({"background": "transparent"}, "background", "background must be 'auto' or 'opaque', as images have no tran"),
        ({"moderation": "low"}, "moderation", "moderation must be 'auto', as the deployment's settings safety."),
        ({"stream": 0}, "stream", "stream must be true or false: got 0"),
        ({"stream": True, "partial_images": 4}, "partial_images", "must be a whole number from 0 to 3: got 4"),
        ({"stream": True, "partial_images": True}, "partial_images", "must be a whole number from 0 to 3: got True"),
        ({"partial_images": 1}, "partial_images", "partial_images must come with stream: got 1"),
        ({"stream": True, "partial_images": 1, "n": 2}, "partial_images", "must be 0 if n is above 1"),
        ({"stream": True, "response_format": "url"}, "response_format", "must be b64_json with stream"),
        ({"user": {"id": 1}}, "user", "user must be a string of at most 512 characters"),
        ({"deadline": 9}, "deadline", "did you mean 'deadline_in_ms'?"),
        ({"deadline_s": 2.5}, "deadline_s", "did you mean 'deadline_in_ms'? it counts ms from now on: 2.5 s are 2500"),
        ({"images": 2}, "images", "did you mean 'n'?"),
        ({"sizze": "64x64"}, "sizze", "size, steps"),
        ({"deadline_in_ms": 10**8}, "deadline_in_ms", "got 100000000; ask at /v1/predictions"),
        ({"style": "vivid"}, "style", "unknown parameter 'style'"),
        ({"request_id": "mine"}, "request_id", "unknown parameter 'request_id'"),
        ({"tenant": "others"}, "tenant", "unknown parameter 'tenant'"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_and_named(stated: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(**stated)
    error = caught.value.body()["error"]
    assert caught.value.kind.status == 400
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert said in error["message"]
    json.dumps(error)


def test_the_pipelines_refusal_has_the_same_code_and_text_over_http() -> None:
    fields = {"prompt": "a red heart", "n": 99, "request_id": "r-1"}
    with pytest.raises(Exception, match="n must be") as by_command:
        check(request_of(fields, NOW_MS), LIMITS, NOW_MS)
    with pytest.raises(Refusal) as by_http:
        parsed(n=99)
    assert str(by_http.value).partition(" (request")[0] == str(by_command.value).partition(" (request")[0]
    assert by_http.value.code == INVALID


def ended(status: Status, code: str, retry_after_ms: int | None = None) -> Refusal:
    outcome = an_outcome(status=status, code=code, reason=f"because of {code}", retry_after_ms=retry_after_ms)
    return refusal_of(result_of(outcome), PARAMS)


@pytest.mark.parametrize(
    ("status", "code", "retry_after_ms", "http", "headers"),
    [
        (Status.REJECTED, "invalid", None, 400, {}),
        (Status.REJECTED, "unhonoured", None, 400, {}),
        (Status.REJECTED, "unsafe", None, 400, {}),
        (Status.REJECTED, "overloaded", 1_500, 429, {"retry-after": "2", "retry-after-ms": "1500"}),
        (Status.REJECTED, "quota", 10, 429, {"retry-after": "1", "retry-after-ms": "10"}),
        (Status.REJECTED, "shed", 5_000, 429, {"retry-after": "5", "retry-after-ms": "5000"}),
        (Status.REJECTED, "starting", 20_000, 429, {"retry-after": "20", "retry-after-ms": "20000"}),
        (Status.REJECTED, "of-a-newer-release", 900, 429, {"retry-after": "1", "retry-after-ms": "900"}),
        (Status.REJECTED, "of-a-newer-release", None, 400, {}),
        (Status.EXPIRED, "deadline", None, 504, {"x-should-retry": "false"}),
        (Status.CANCELLED, "cancelled", None, 409, {"x-should-retry": "false"}),
        (Status.FAILED, "poison", None, 500, {"x-should-retry": "false"}),
        (Status.FAILED, "", None, 500, {"x-should-retry": "false"}),
    ],
)  # fmt: skip
def test_a_request_that_did_not_complete_is_answered_with_its_own_code_and_reason(
    status: Status, code: str, retry_after_ms: int | None, http: int, headers: dict[str, str]
) -> None:
    refusal = ended(status, code, retry_after_ms)
    assert (refusal.kind.status, refusal.headers()) == (http, headers)
    assert refusal.body()["error"]["message"] == f"because of {code}"
    assert refusal.body()["error"]["code"] == (code or "failed")


def test_every_status_that_clients_repeat_by_themselves_says_whether_to() -> None:
    repeated = {code for code, kind in KINDS.items() if kind.status in (408, 409) or kind.status >= 500}
    assert {code for code in repeated if KINDS[code].may_repeat} == {"busy", "unavailable"}


def completed(**changes: Any) -> Result:
    return dataclasses.replace(a_result(a_step(), request_id="r-1"), status=Status.COMPLETED, **changes)


def test_the_answer_has_the_images_in_the_form_that_was_asked_for() -> None:
    asked = parsed(quality="high", output_format="webp")
    told = answer(asked, completed(width=64, height=48), ["QUJD"], NOW_MS)
    assert told["data"] == [{"b64_json": "QUJD"}]
    assert (told["created"], told["output_format"], told["size"], told["quality"]) == (
        NOW_MS // 1000, "webp", "64x48", "high",
    )  # fmt: skip
    assert told["pochade"]["request_id"] == "r-1"
    made = Made(variant="light", seed=7, steps=2, guidance=1, width=64, height=48, price_per_hour=2.5)
    ours = answer(asked, completed(made=made, cost=0.0015), [], NOW_MS)["pochade"]
    assert (ours["cost"], ours["made"]["seed"]) == (0.0015, 7)
    assert "price_per_hour" not in ours["made"], "what a worker costs is the deployment's own business"
    asked = parsed(response_format="url", quality="hd")
    by_url = answer(asked, completed(), ["http://here/1", "http://here/2"], NOW_MS)
    assert by_url["data"] == [{"url": "http://here/1"}, {"url": "http://here/2"}]
    assert "quality" not in by_url  # its old names are none of an answer


def pixels(data: bytes) -> tuple[str | None, np.ndarray]:
    with Image.open(io.BytesIO(data)) as image:
        return image.format, np.asarray(image.convert("RGB")).astype(int)


def stored() -> bytes:
    row = [(x * 15, 255 - x * 15, (x * x) % 256) for x in range(16)]
    out = io.BytesIO()
    Image.fromarray(np.array([row] * 8, dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


def test_png_and_uncompressed_webp_have_every_pixel_and_jpeg_is_near() -> None:
    png, webp = stored(), encoded(stored(), Format("webp"))
    assert encoded(png, Format()) == png
    form, exact = pixels(webp)
    assert form == "WEBP"
    assert (exact == pixels(png)[1]).all()
    form, near = pixels(encoded(png, Format("jpeg")))
    assert form == "JPEG"
    assert abs(near - pixels(png)[1]).max() < 16


@pytest.mark.parametrize("name", ["jpeg", "webp"])
def test_compression_makes_files_smaller(name: str) -> None:
    sizes = [len(encoded(noise(), Format(name, quality))) for quality in (0, 60, 100)]
    assert sizes == sorted(set(sizes))


def noise() -> bytes:
    out = io.BytesIO()
    Image.effect_noise((64, 64), 80).convert("RGB").save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("stated", "param", "said"),
    [
        ({"priority": "high"}, "priority", "priority must be one of interactive, standard, batch"),
        ({"service_tier": "flex"}, "service_tier", "did you mean 'tier'?"),
        ({"num_outputs": 99}, "num_outputs", "num_outputs must be from 1 to 8"),
        ({"size": "64x64", "n": 2, "num_outputs": 2}, "num_outputs", "states n, which is there as well"),
        ({"style": "vivid"}, "style", "the prompt says the style, or an adapter of it (adapters)"),
        ({"input_fidelity": "high"}, "input_fidelity", "strength says which share of the steps"),
        ({"aspect_ratio": "1:1"}, "aspect_ratio", "did you mean 'size'?"),
        ({"width": 64}, "width", "did you mean 'size'?"),
        ({"deadline_ms": 5000}, "deadline_ms", "did you mean deadline_in_ms 5000?"),
        ({"deadline_ms": NOW_MS // 1000 + 60}, "deadline_ms", "did you mean"),
        ({"image": "data:image/png;base64," + "iVBORw0K" * 400}, "image", "and so is what POST /v1/files answers"),
        ({"prompt": "\u200b\ufeff \u200d"}, "prompt", "prompt must not be empty"),
    ],
)
def test_advice_is_such_that_an_http_client_can_follow_it(stated: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(**stated)
    message = str(caught.value)
    assert (caught.value.kind.status, caught.value.param) == (400, param)
    assert said in message
    assert "pochade " not in message
    assert "(request" not in message
    assert "iVBORw0K" * 3 not in message


@pytest.mark.parametrize(("field", "param"), [("prompt", "prompt"), ("width", "size"), ("", None)])
def test_a_refusal_names_the_parameter_that_stands_for_the_field_which_a_result_names(
    field: str, param: str | None
) -> None:
    outcome = an_outcome(status=Status.REJECTED, code="unhonoured", reason="light does not honour it", param=field)
    assert refusal_of(result_of(outcome), PARAMS).param == param
