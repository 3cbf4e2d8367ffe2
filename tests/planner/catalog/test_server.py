"""A variant's server: what a catalog may say of it, and what is refused there."""

import pathlib
import re
from typing import Any

import pytest

from planner.catalog.server import Server
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from streams.parsing.catalog import parse
from tests.builders import a_variant

PAGE = pathlib.Path(__file__).parents[3] / "agents" / "engines" / "README.md"
URL = "http://127.0.0.1:8091/v1"


def block() -> str:
    """The catalog's block on the page of engines."""
    found = re.search(r"```toml\n(\[variants\.heavy\]\nengine = \"openai\".*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_page_s_block_is_a_catalog_and_needs_no_model_and_no_load_time() -> None:
    heavy = parse(block(), "mine").level("heavy")
    assert heavy.server is not None
    assert (heavy.server.url, heavy.server.model, heavy.server.in_flight) == (URL, "Qwen/Qwen-Image", 8)
    assert (heavy.model, heavy.scheduler, heavy.load_ms, heavy.server.body) == ("", "", 0.0, {"true_cfg_scale": 4.0})


def test_a_load_time_that_is_stated_counts() -> None:
    assert parse("[variants.heavy]\nload_ms = 5\n" + block().split("\n", 1)[1], "mine").level("heavy").load_ms == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://host/v1"}, "server.url must be http://HOST or https://HOST: got 'host'"),
        ({"url": "http:///v1"}, "server.url must be http://HOST or https://HOST: got None"),
        ({"url": "http://host/v1?key=s3cret"}, "server.url must be http"),
        ({"url": "http://me:s3cret@host/v1"}, "server.url must be without a user: got 'host'; name a key_file"),
        ({"in_flight": 0}, "server.in_flight must be from 1 to 256: got 0"),
        ({"timeout_s": 0.0}, "server.timeout_s must be seconds > 0: got 0.0"),
        ({"timeout_s": float("nan")}, "server.timeout_s must be seconds > 0"),
        ({"body": {"size": "64x64"}}, "server.body must be without what the engine sends: got 'size'"),
        ({"body": {"stream": True}}, "server.body must be without what the engine sends: got 'stream'"),
        ({"dialect": "sglang", "body": {"seed": 1}}, "server.body must be without what the engine sends: got 'seed'"),
    ],
)
def test_an_impossible_server_is_refused_and_no_secret_is_shown(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidCatalog, match=said) as found:
        Server(**({"url": URL} | given))
    assert "s3cret" not in str(found.value)


def test_a_dialect_and_a_field_that_are_not_known_name_those_that_are() -> None:
    with pytest.raises(Unknown, match=r"did you mean 'sglang'\? known are dynamo, openai, sglang, vllm-omni"):
        Server(url=URL, dialect="sglan")
    with pytest.raises(Unknown, match=r"did you mean 'steps'\? known are guidance, negative_prompt, seed, steps"):
        Server(url=URL, fields={"step": "num_steps"})


@pytest.mark.parametrize("option", ["steps", "negative_prompt", "image", "mask"])
def test_what_a_server_has_no_field_for_no_variant_of_it_may_honour(option: str) -> None:
    with pytest.raises(InvalidCatalog, match=f"honours must be of those that its server takes: .*: got '{option}'"):
        a_variant(server=Server(url=URL, dialect="openai"), honours=("width", option))


def test_a_field_that_the_catalog_names_is_taken() -> None:
    server = Server(url=URL, fields={"steps": "num_steps"})
    assert a_variant(server=server, honours=("steps", "width")).honours == ("steps", "width")


def test_a_variant_with_a_server_has_no_components() -> None:
    with pytest.raises(InvalidCatalog, match=r"components must be none with a server: got \('photo',\)"):
        a_variant(server=Server(url=URL), bases=("photo",))


def test_the_engine_needs_a_server() -> None:
    with pytest.raises(
        InvalidCatalog, match=r"server must be given for engine openai: .* add \[variants.light.server\]"
    ):
        a_variant(engine="openai")


def test_a_misspelt_key_of_the_table_is_named() -> None:
    with pytest.raises(Unknown, match="in_flight"):
        parse(block().replace("in_flight", "inflight"), "mine")
