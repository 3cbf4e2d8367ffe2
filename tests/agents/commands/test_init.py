"""`pochade init`: the catalog that it writes, and what it says, without loading the models."""

import pathlib

import pytest
from click.testing import CliRunner, Result

from agents.commands import init as command
from agents.engines import EngineFailed
from agents.profiling.profiling import Round, Sample
from planner.catalog.entries import Variant
from streams import catalogs
from streams.cli import main
from tests.toys import Toys


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Level -> ms of one image, as if it had been measured."""
    found = {"light": 100.0, "heavy": 900.0}

    def timed(variant: Variant, threads: int) -> Round:
        del threads
        calls = {batch: [Sample(batch * found[variant.name], 7.0)] * 3 for batch in command.BATCHES}
        return Round(cold_load_ms=9.0, load_ms=5.4, memory_bytes=3 * 10**9, cuda_bytes=0, calls=calls, failed={})

    monkeypatch.setattr(command, "_timed", timed)
    return found


def run(out: pathlib.Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["init", "--out", str(out), *words])


@pytest.mark.usefixtures("times")
def test_the_catalog_has_what_was_measured_and_says_what_was_not(toys: Toys, tmp_path: pathlib.Path) -> None:
    out, light, heavy = tmp_path / "own.toml", toys("flux-schnell"), toys("flux-dev")
    done = run(out, "--light", light, "--heavy", heavy, "--slo", "5", "--size", "64x64")
    assert done.exit_code == 0, done.output
    catalog = catalogs.load(str(out))
    assert {name: each.latency_ms for name, each in catalog.variants.items()} == {
        "light": {1: 100.0, 2: 200.0}, "heavy": {1: 900.0, 2: 1800.0},
    }  # fmt: skip
    assert (catalog.slo_s, catalog.has_quality, catalog.cascades) == (5.0, False, ())
    assert catalog.level("light").call == {"max_sequence_length": 256}
    assert catalog.level("heavy").model == str(pathlib.Path(heavy).resolve())
    for text in (out.read_text(), done.output):
        assert "not stated: read it where the model came from" in text
        assert "slower" in text
    assert f"pochade profile --catalog {out} --out {out.parent} --prompt-file" in out.read_text()
    assert f"export POCHADE_CATALOG={out}" in done.output
    assert "note: no discriminator judges images of these models" in done.output


def test_what_would_surprise_is_noted(toys: Toys, tmp_path: pathlib.Path, times: dict[str, float]) -> None:
    times |= {"light": 9000.0}
    done = run(tmp_path / "own.toml", "--light", toys("sd15"), "--heavy", toys("sana"), "--slo", ".5")
    assert "note: light takes longer than heavy" in done.output
    assert "note: heavy takes longer than the SLO of 0.5 s" in done.output
    assert "note: light's images are 64x64 px and heavy's 1024x1024: --size makes them equal" in done.output


def test_a_model_that_does_not_load_leaves_a_catalog_to_correct(
    toys: Toys, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise EngineFailed("variant 'light': honours guidance without effect")

    monkeypatch.setattr(command, "_timed", fails)
    out = tmp_path / "own.toml"
    done = run(out, "--light", toys("sd15"), "--heavy", toys("sana"))
    assert done.exit_code == 1
    assert f"honours guidance without effect\ncorrect {out}" in done.output
    assert set(catalogs.load(str(out)).variants) == {"light", "heavy"}
    assert "not measured, as latency_ms" in out.read_text()


def test_one_model_twice_and_a_file_that_is_there_are_refused(toys: Toys, tmp_path: pathlib.Path) -> None:
    twice = run(tmp_path / "own.toml", "--light", toys("sd15"), "--heavy", toys("sd15"))
    assert "give two models" in twice.output
    there = tmp_path / "there.toml"
    there.touch()
    assert "exists: give another --out" in run(there, "--light", "a", "--heavy", "b").output
