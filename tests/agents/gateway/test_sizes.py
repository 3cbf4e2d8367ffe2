"""Names of models and sizes of other products, as the settings have them."""

import base64
import io
from typing import Any

import httpx
import pytest
from PIL import Image

from agents.gateway.sizes import Sizes
from streams.settings import Gateway, InvalidSettings
from tests.agents.gateway.deployment import Deployment, offered
from tests.agents.gateway.test_app import got, png, posted
from tests.builders import a_catalog, a_variant

PLAIN = a_catalog()  # whose levels generate 32x32 alone
SQUARE = {"prompt": "a red heart", "size": "1024x1024"}


def at(policy: Any, body: dict[str, Any], path: str = "/v1/images/generations") -> tuple[Deployment, httpx.Response]:
    deployment = Deployment(Gateway(foreign_sizes=policy), catalog=PLAIN)
    deployment.ends(png("blue"), width=32, height=32)
    return deployment, posted(deployment, body, path)


def size_in(answer: httpx.Response) -> tuple[int, int]:
    data = base64.b64decode(answer.json()["data"][0]["b64_json"])
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def test_a_size_that_no_level_generates_is_refused_unless_a_setting_says_else() -> None:
    _, answer = at("refuse", SQUARE)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "size")
    assert "setting gateway.foreign_sizes (nearest or scale)" in answer.json()["error"]["message"]
    _, strict = at("nearest", {**SQUARE, "strict": True})
    assert (strict.status_code, "foreign_sizes" in strict.text) == (400, False), "the client insists"


@pytest.mark.parametrize(
    ("name", "meant"), [("pochade/heavy", "heavy"), ("someone/light", "light"), ("gpt-image-1", "")]
)
def test_an_unknown_model_is_refused_with_the_model_that_was_meant_or_the_setting_for_other_names(
    name: str, meant: str
) -> None:
    answer = posted(Deployment(catalog=PLAIN), {"prompt": "a red heart", "model": name})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 404
    assert ("did you mean" in message, f"did you mean '{meant}'?" in message) == (bool(meant), bool(meant))
    assert "setting gateway.models" in message


def test_the_nearest_size_is_generated_and_said() -> None:
    deployment, answer = at("nearest", SQUARE)
    assert (deployment.asked().options.width, deployment.asked().options.height) == (32, 32)
    assert answer.json()["size"] == "32x32"
    assert answer.json()["pochade"]["overridden"] == ["size: 1024x1024 -> 32x32"]


@pytest.mark.parametrize("form", ["png", "webp"])
def test_a_scaled_answer_has_the_size_that_was_asked_for_and_says_what_was_generated(form: str) -> None:
    _, answer = at("scale", {**SQUARE, "size": "96x64", "output_format": form})
    assert (answer.json()["size"], size_in(answer)) == ("96x64", (96, 64))
    assert answer.json()["pochade"]["overridden"] == ["size: 96x64 -> 32x32, scaled"]


def test_an_address_of_a_scaled_image_leads_to_it_in_its_size() -> None:
    deployment, answer = at("scale", {**SQUARE, "response_format": "url"})
    shown = got(deployment, answer.json()["data"][0]["url"])
    with Image.open(io.BytesIO(shown.content)) as image:
        assert image.size == (1024, 1024)


@pytest.mark.parametrize("stated", [{"strict": True}, {"size": "8192x8192"}, {"size": "big"}])
def test_what_insists_or_lies_outside_of_all_limits_is_refused_also_then(stated: dict[str, Any]) -> None:
    deployment, answer = at("scale", {**SQUARE, **stated})
    assert (answer.status_code, deployment.written()) == (400, [])


def test_a_level_that_follows_sizes_gets_the_nearest_multiple_and_others_their_own() -> None:
    free = a_variant(name="heavy", honours=("width", "height"), size_multiple=16)
    sizes = Sizes(a_catalog(variants={"light": a_variant(), "heavy": free}), "nearest")
    assert sizes.placed({"size": "100x200"}, "").body["size"] == "96x192"
    assert sizes.placed({"size": "100x200"}, "light").body["size"] == "32x32"
    assert sizes.placed({"size": "96x192"}, "").overridden == ""


@pytest.mark.parametrize(
    ("ratio", "size"), [("1:1", (32, 32)), ("16:9", (40, 24)), ("9:16", (24, 40)), ("4:1", (64, 16))]
)
@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/predictions"])
def test_an_aspect_ratio_is_a_size_of_about_as_many_pixels(path: str, ratio: str, size: tuple[int, int]) -> None:
    deployment = Deployment()
    deployment.ends(png())
    stated = {"prompt": "a cat", "aspect_ratio": ratio}
    answer = posted(deployment, {"input": stated} if "pred" in path else stated, path)
    assert answer.status_code in (200, 201), answer.text
    assert (deployment.asked().options.width, deployment.asked().options.height) == size


@pytest.mark.parametrize(
    ("stated", "catalog", "said"),
    [
        ({"aspect_ratio": "wide"}, offered(), "must be WIDTH:HEIGHT, such as 16:9"),
        ({"aspect_ratio": "1:1", "width": 64}, offered(), "states the size, and width too"),
        ({"aspect_ratio": "16:9"}, PLAIN, "must be that of a size there is (32x32): got 16:9"),
    ],
)
def test_an_aspect_ratio_that_cannot_be_had_is_refused_by_its_name(
    stated: dict[str, Any], catalog: Any, said: str
) -> None:
    answer = posted(Deployment(catalog=catalog), {"input": {"prompt": "a cat", **stated}}, "/v1/predictions")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input.aspect_ratio")
    assert said in answer.json()["detail"]


MODELS = {"dall-e-3": "auto", "gpt-image-1": "heavy", "black-forest-labs/flux": "light"}


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        ("/v1/images/generations", {"prompt": "a", "model": "dall-e-3"}, ""),
        ("/v1/images/generations", {"prompt": "a", "model": "gpt-image-1"}, "heavy"),
        ("/v1/predictions", {"input": {"prompt": "a"}, "version": "gpt-image-1"}, "heavy"),
        ("/v1/models/black-forest-labs/flux/predictions", {"input": {"prompt": "a"}}, "light"),
    ],
)
def test_a_name_of_another_product_stands_for_the_model_of_the_settings(
    path: str, body: dict[str, Any], model: str
) -> None:
    deployment = Deployment(Gateway(models=MODELS))
    deployment.ends(png())
    assert posted(deployment, body, path).status_code in (200, 201)
    assert deployment.asked().options.model == model


def test_such_names_are_listed_with_what_they_stand_for() -> None:
    deployment = Deployment(Gateway(models=MODELS))
    known = {each["id"]: each for each in got(deployment, "/v1/models").json()["data"]}
    assert {name: known[name]["pochade"]["model"] for name in MODELS} == MODELS
    flux = known["black-forest-labs/flux"]
    assert (flux["owner"], flux["name"]) == ("black-forest-labs", "flux")
    assert got(deployment, flux["url"]).json() == flux


def test_a_name_of_no_model_is_refused_at_start() -> None:
    with pytest.raises(InvalidSettings, match=r"gateway.models: 'dall-e-3' is to be unknown model 'hevy'.*'heavy'"):
        Deployment(Gateway(models={"dall-e-3": "hevy"}))


def test_a_model_says_what_may_be_asked_of_it_and_how_long_an_image_takes() -> None:
    deployment = Deployment()
    deployment.serves("w-1", "w-2")
    shown = got(deployment, "/v1/models/light").json()["pochade"]
    assert shown["limits"]["width"] == {"min": 8, "max": 4096, "multiple_of": 8}
    assert shown["limits"]["steps"] == {"min": 1, "max": 200}
    assert (shown["workers"], shown["expected_ms"], shown["price"]) == (2, 20, None)
    heavy = got(deployment, "/v1/models/heavy").json()["pochade"]
    assert (heavy["workers"], heavy["expected_ms"], heavy["why"]) == (0, None, "no worker serves heavy")
    deployment.serves("w-1", "w-2", price_per_hour=3.6)
    assert got(deployment, "/v1/models/light").json()["pochade"]["price"] == pytest.approx(20 * 3.6 / 3_600_000)
    assert got(deployment, "/v1/models/heavy").json()["pochade"]["price"] is None, "no worker serves it"
    assert got(Deployment(catalog=PLAIN), "/v1/models/light").json()["pochade"]["limits"] == {}
