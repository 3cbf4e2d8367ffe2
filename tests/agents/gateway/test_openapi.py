"""The gateway's OpenAPI document says what its routes and parsers take, no more and no less."""

import re
from typing import Any

import jsonschema
import pytest

from agents.gateway.app import routes_of
from agents.gateway.openai_images import TAKEN
from agents.gateway.openapi import PATH, document, edit_body, images_body, prediction_body
from agents.gateway.predictions import INPUT, WEBHOOK_FIELDS
from agents.gateway.sizes import ASPECT
from schemas.vocabulary import ALIASES
from tests.agents.gateway.deployment import Deployment
from tests.agents.gateway.test_app import HEART, got, posted


def operations() -> set[tuple[str, str]]:
    return {(path, method.upper()) for path, methods in document("1")["paths"].items() for method in methods}


def test_it_lists_every_route_of_the_gateway_and_no_other() -> None:
    deployment = Deployment()
    routes = {
        (route.path, method)
        for route in routes_of(deployment.images, deployment.predictions, deployment.receipts)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert operations() == routes


def test_it_lists_every_parameter_that_a_body_may_have_and_no_other() -> None:
    assert images_body()["properties"].keys() == {*TAKEN, ASPECT}
    assert edit_body()["properties"].keys() == {*TAKEN, ASPECT}
    assert prediction_body()["properties"].keys() == {"input", "model", "version", "stream", *WEBHOOK_FIELDS}
    assert prediction_body()["properties"]["input"]["properties"].keys() == {*INPUT, *ALIASES, ASPECT}


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({}, True), ({"n": 2, "size": "64x32", "quality": "hd"}, True), ({"adapters": ["candy"], "seed": 3}, True),
        ({"adapter": "candy:0.8", "num_outputs": 2, "priority": "interactive", "deadline_in_ms": 5000}, True),
        ({"n": 0}, False), ({"n": "2"}, False), ({"quality": "superb"}, False), ({"moderation": "low"}, False),
        ({"colour": "red"}, False), ({"prompt": None}, False), ({"adapters": "candy"}, False),
        ({"deadline_in_ms": 0}, False),
    ],
)  # fmt: skip
def test_what_it_allows_is_what_the_gateway_takes(changes: dict[str, Any], *, is_taken: bool) -> None:
    body = HEART | changes
    jsonschema.Draft202012Validator.check_schema(images_body())
    assert jsonschema.Draft202012Validator(images_body()).is_valid(body) == is_taken
    deployment = Deployment()
    if is_taken:
        deployment.ends(b"", b"")
    assert (posted(deployment, body).status_code != 400) == is_taken


def test_it_is_served_and_its_references_lead_somewhere() -> None:
    served = got(Deployment(), PATH).json()
    assert served["openapi"].startswith("3.1")
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', str(served).replace("'", '"')):
        found = served
        for part in reference.split("/"):
            found = found[part]
    assert served["components"]["schemas"].keys() >= {"ImagesBody", "Prediction", "Error"}
