"""A compiled denoiser gives what the eager one gives, from kept code at the next start, and eagerly where it cannot."""

import dataclasses
import logging
import os
import pathlib
from typing import Any

import pytest
import torch
from prometheus_client import REGISTRY

from agents.components.opening import Keeping
from agents.engines.compiling import identity as identity_module
from agents.engines.compiling.cache import CodeCache
from agents.engines.compiling.compilation import (
    CACHE_DIR,
    FAILED,
    FOLDER,
    TRITON_DIR,
    Compilation,
    _compiler_in,
    batches_of,
)
from agents.engines.compiling.identity import identity_of
from planner.catalog.entries import Loading, Variant
from streams.settings import WorkerComponentSettings
from tests.agents.engines.compiling.denoisers import SIZE, Denoiser, Pipeline
from tests.builders import a_variant

pytestmark = pytest.mark.torch


def a_compiled_variant() -> Variant:
    return a_variant(
        engine="diffusers", model="models/light", width=SIZE, height=SIZE, latency_ms={1: 20.0},
        loading=Loading(compile=True),
    )  # fmt: skip


def opened(home: pathlib.Path, **settings: int) -> tuple[Pipeline, Compilation]:
    keeping = Keeping(settings=WorkerComponentSettings(**settings), home=home)
    compilation = Compilation(a_compiled_variant(), keeping)
    return compilation.equip(Pipeline(Denoiser())), compilation


def fallbacks(kind: str) -> float:
    return REGISTRY.get_sample_value("pochade_fallbacks_total", {"role": "worker", "kind": kind}) or 0.0


def called_compilers_s() -> float:
    return os.times().children_user


def files(home: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in (home / "components" / FOLDER).iterdir() if path.is_file()]


@pytest.fixture
def plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile without vector instructions, for each of which the compiler is tried, and without headers made ready."""
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "vec_isa_ok", False)
    monkeypatch.setattr(config, "cpp_cache_precompile_headers", False)


def test_a_machine_without_a_compiler_generates_eagerly_and_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("/nowhere/g++",))
    pipeline, compilation = opened(tmp_path)
    before = fallbacks("compile")
    with caplog.at_level(logging.WARNING):
        warmed = compilation.warm_up(pipeline.generate)
    assert warmed.result == FAILED
    assert fallbacks("compile") == before + 1
    assert "generates eagerly" in caplog.text
    assert torch.equal(pipeline.generate(1), Pipeline(Denoiser()).generate(1))
    assert compilation.take_eager_steps() == 0, "nothing asks for code that there is none of"
    assert files(tmp_path) == []


def identity(pipeline: Pipeline) -> dict[str, Any]:
    variant = a_compiled_variant()
    return identity_of(pipeline.unet, variant, batches_of(variant))


def test_kept_code_that_is_damaged_is_told_counted_and_not_used(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, compilation = opened(tmp_path)
    cache = CodeCache(tmp_path / "components" / FOLDER, 1 << 20)
    (tmp_path / "left").mkdir()
    cache.save(identity(pipeline), tmp_path / "left")
    os.truncate(cache.path(identity(pipeline)), 500)
    before = fallbacks("compiled-code")
    with caplog.at_level(logging.WARNING):
        warmed = compilation.warm_up(lambda _: None)
    assert fallbacks("compiled-code") == before + 1
    assert warmed.kept_bytes == 0
    assert "it was removed, and is compiled again" in caplog.text


def test_code_is_of_one_architecture_on_one_number_of_threads_and_of_any_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = Denoiser()
    wide.layer = torch.nn.Conv2d(4, 4, 5, padding=2)
    first = identity(Pipeline(Denoiser()))
    assert identity(Pipeline(Denoiser(seed=1))) == first
    assert identity(Pipeline(wide)) != first
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert identity(Pipeline(Denoiser())) != first
    finally:
        torch.set_num_threads(threads)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "__version__", "0.0")
        assert identity(Pipeline(Denoiser())) != first, "another library"
    with monkeypatch.context() as patched:
        patched.setattr(identity_module, "_cpu", lambda: "another")
        assert identity(Pipeline(Denoiser())) != first, "another processor"
    larger = dataclasses.replace(a_compiled_variant(), width=2 * SIZE)
    assert identity_of(Denoiser(), larger, batches_of(larger)) != first
    assert identity(Pipeline(Denoiser())) == first


@pytest.mark.parametrize("own", [None, "/of/the/user"])
def test_kernels_of_a_device_are_made_in_the_folder_that_is_kept_and_of_no_later_engine(
    own: str | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own:
        monkeypatch.setenv(TRITON_DIR, own)
    else:
        monkeypatch.delenv(TRITON_DIR, raising=False)
    with _compiler_in(tmp_path):
        assert (os.environ[CACHE_DIR], os.environ.get(TRITON_DIR)) == (str(tmp_path), None)
        os.environ[TRITON_DIR] = str(tmp_path / "triton")  # as the compiler does, and leaves it
    assert os.environ.get(TRITON_DIR) == own
