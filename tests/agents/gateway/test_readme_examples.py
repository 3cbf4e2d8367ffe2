"""The examples of the gateway's README are taken by a deployment of the shipped models."""

import ast
import json
import re
from typing import Any

import pytest

from streams.catalogs import measured
from streams.settings import Settings
from tests.agents.gateway.deployment import Deployment
from tests.agents.gateway.test_app import png, posted
from tests.paths import ROOT

TEXT = (ROOT / "agents/gateway/README.md").read_text()


def examples() -> list[tuple[str, dict[str, Any]]]:
    """Path and body of every request that the page shows: by OpenAI's client, by Replicate's, and by curl."""
    found = [(f"/v1/{path}", json.loads(body)) for path, body in re.findall(r"8760/v1/(\S+).*?--json '([^']+)'", TEXT)]
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        for call in (each for each in ast.walk(ast.parse(block)) if isinstance(each, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            given = {str(each.arg): each.value for each in call.keywords}
            if name == "generate":
                found.append(("/v1/images/generations", {arg: ast.literal_eval(each) for arg, each in given.items()}))
            if name == "run":
                model, said = ast.literal_eval(call.args[0]), ast.literal_eval(given["input"])
                found.append((f"/v1/models/{model}/predictions", {"input": said}))
    return found


@pytest.mark.parametrize(("path", "body"), examples())
def test_an_example_is_taken(path: str, body: dict[str, Any]) -> None:
    deployment = Deployment(catalog=measured(Settings().catalog))
    deployment.ends(png(), width=48, height=48)
    answer = posted(deployment, body, path)
    assert answer.status_code in (200, 201), answer.text


def test_there_is_one_for_each_client() -> None:
    assert {path for path, _ in examples()} >= {
        "/v1/images/generations",
        "/v1/predictions",
        "/v1/models/pochade/auto/predictions",
    }
