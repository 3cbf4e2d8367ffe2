"""`pochade components publish`: the tiny family to a folder, again, in part, and what it refuses."""

import json
import pathlib
import shutil
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agents.commands.components import components
from agents.components.sources import Fetched
from schemas.errors import PochadeError
from streams import catalogs
from streams.settings import load
from streams.weights.pools import BufferPools
from streams.weights.remotes.folder import FolderRemote
from streams.weights.volume import Volume
from tests.paths import MODELS

TWO = ("base:poster", "adapter:mint")


def run(*words: str, **settings: Any) -> Result:
    return CliRunner().invoke(components, ["publish", *words], obj=lambda: load({"catalog": "tiny", **settings}))


def rows(done: Result) -> dict[str, dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return {row["component"]: row for row in json.loads(done.stdout)}


def refused(done: Result) -> str:
    assert isinstance(done.exception, PochadeError), done.output
    return str(done.exception)


def test_a_catalogs_components_are_published_once_and_fetched_by_the_catalogs_digests(tmp_path: pathlib.Path) -> None:
    remote = tmp_path / "remote"
    first = rows(run("--to", str(remote), "-o", "json"))
    listed = {each.id: each for each in catalogs.load("tiny").level("styles").components}
    assert set(first) == set(listed)
    assert {id_: row["sha256"] for id_, row in first.items()} == {id_: each.sha256 for id_, each in listed.items()}
    assert all(row["state"] == "published" and row["sent_bytes"] == row["bytes"] for row in first.values())
    again = rows(run("--to", str(remote), "-o", "json"))
    assert all(row["state"] == "present" and row["sent_bytes"] == 0 for row in again.values())
    source = Fetched(
        listed, Volume(tmp_path / "volume", 1 << 30), lambda each: FolderRemote(remote / each.kind / each.name),
        BufferPools((), 1 << 30, None),
    )  # fmt: skip
    for id_ in listed:
        source.fetch(id_)
    assert source.on_volume() == set(listed)


def test_named_components_go_to_the_remote_of_the_settings(tmp_path: pathlib.Path) -> None:
    worker = {"components": {"remote": str(tmp_path / "remote")}}
    found = rows(run(*TWO, "-o", "json", worker=worker))
    assert set(found) == set(TWO)
    assert found["adapter:mint"]["url"] == str(tmp_path / "remote/adapter/mint")
    told = run(*TWO, worker=worker)
    assert f"0 of 2 components published to {tmp_path}/remote, 0.0 MB" in told.stderr


def test_a_dry_run_says_what_would_be_copied_and_copies_nothing(tmp_path: pathlib.Path) -> None:
    found = rows(run(*TWO, "--to", str(tmp_path / "remote"), "--dry-run", "-o", "json"))
    assert all(row["state"] == "to publish" and row["missing_bytes"] == row["bytes"] for row in found.values())
    assert not (tmp_path / "remote").exists()


def test_what_was_altered_in_the_remote_is_replaced_by_force(tmp_path: pathlib.Path) -> None:
    remote = tmp_path / "remote"
    rows(run("adapter:mint", "--to", str(remote), "-o", "json"))
    (file,) = (remote / "adapter/mint").rglob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(bytes(len(whole)))
    assert rows(run("adapter:mint", "--to", str(remote), "-o", "json"))["adapter:mint"]["state"] == "present"
    assert rows(run("adapter:mint", "--to", str(remote), "--force", "-o", "json"))["adapter:mint"]["sent_bytes"]
    assert file.read_bytes() == whole


def test_what_cannot_be_published_is_refused_before_anything_is_copied(tmp_path: pathlib.Path) -> None:
    to = ("--to", str(tmp_path / "remote"))
    assert "give --to s3://BUCKET/PREFIX or a folder" in refused(run())
    assert "unknown component 'base:postr'" in refused(run("base:postr", *to))
    assert "did you mean 'base:poster'" in refused(run("base:postr", *to))
    assert "nothing to publish" in refused(run("--catalog", "genai2026", *to))
    altered = tmp_path / "mint"
    shutil.copytree(MODELS / "loras/mint", altered)
    (weights,) = altered.rglob("*.safetensors")
    weights.write_bytes(weights.read_bytes() + b"more")
    own = tmp_path / "own.toml"
    own.write_text(catalogs.text_of("tiny").replace('"models/loras/mint"', f'"{altered}"'))
    assert "adapter:mint at" in refused(run("--catalog", str(own), *to))
    own.write_text(catalogs.text_of("tiny").replace('"models/loras/mint"', '"someone/mint-lora"'))
    assert "adapter:mint must lie on this machine" in refused(run("--catalog", str(own), *to))
    assert not (tmp_path / "remote").exists()


@pytest.mark.parametrize("words", [[], ["publish"]])
def test_help_has_an_example(words: list[str]) -> None:
    shown = CliRunner().invoke(components, [*words, "--help"])
    assert "pochade components publish --to s3://weights/pochade" in shown.output
