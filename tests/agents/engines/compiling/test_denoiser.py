"""A denoiser runs compiled code for what it was compiled for, and everything else eagerly, without compiling."""

import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from agents.engines.compiling.compilation import batches_of, rows_of
from agents.engines.compiling.denoiser import CompiledDenoiser, denoiser_of
from tests.agents.engines.compiling.denoisers import SIZE, Denoiser, Pipeline
from tests.builders import a_variant

pytestmark = pytest.mark.torch


def warmed(
    monkeypatch: pytest.MonkeyPatch, backend: Any = "eager", **changes: Any
) -> tuple[Pipeline, CompiledDenoiser]:
    """A pipeline whose denoiser is traced for one image and for a batch, without a C++ compiler.

    The tracer forgets other tests: a function that it saw with several sizes it traces for all at once.
    """
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    pipeline, denoiser = Pipeline(Denoiser()), CompiledDenoiser(Denoiser)
    denoiser.attach(pipeline.unet)
    denoiser.warm(is_warming=True)
    variant = a_variant(**changes)
    for images in batches_of(variant):
        pipeline.generate(images * rows_of(variant))
    denoiser.warm(is_warming=False)
    return pipeline, denoiser


def test_a_request_runs_the_code_of_the_warm_up_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = list[str]()

    def counting(graph: torch.fx.GraphModule, _inputs: object) -> Callable[..., Any]:
        ran.append("compiled")

        def run(*given: torch.Tensor) -> Any:
            ran.append("ran")
            return graph.forward(*given)

        return run

    pipeline, _ = warmed(monkeypatch, backend=counting)
    assert ran.count("compiled") == 2, "one image, and more"
    ran.clear()
    pipeline.generate(1)
    pipeline.generate(3)
    assert ran == ["ran"] * 4, "two steps each, and nothing is compiled"


def test_two_batches_of_a_warm_up_stand_for_all_and_for_other_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, denoiser = warmed(monkeypatch)
    for images in (1, 2, 3, 8):
        assert torch.allclose(pipeline.generate(images), Pipeline(Denoiser()).generate(images), atol=1e-5)
    other = Pipeline(Denoiser(seed=1))
    denoiser.attach(other.unet)
    assert torch.allclose(other.generate(2), Pipeline(Denoiser(seed=1)).generate(2), atol=1e-5)
    assert not torch.allclose(other.generate(2), pipeline.generate(2), atol=1e-5)
    assert denoiser.eager_steps == 0, "a base of the same architecture runs the same code"


def test_what_was_not_compiled_for_runs_eagerly_is_counted_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, denoiser = warmed(monkeypatch)
    eager = Pipeline(Denoiser())
    with caplog.at_level(logging.WARNING, logger="agents.engines.compiling.denoiser"):
        assert torch.equal(pipeline.generate(1, 2 * SIZE), eager.generate(1, 2 * SIZE)), "another size"
        assert denoiser.eager_steps == 2
        residual = torch.ones(1, 4, SIZE, SIZE)
        assert torch.equal(pipeline.generate(1, residual=residual), eager.generate(1, residual=residual))
        assert denoiser.eager_steps == 4
    told = [each.getMessage() for each in caplog.records if each.name.startswith("agents.")]
    assert len(told) == 2, "once for each kind of inputs, not for each step"
    assert "which run eagerly" in told[0]
    pipeline.generate(1)
    assert denoiser.eager_steps == 4


def test_latents_of_any_layout_run_the_code_that_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, denoiser = warmed(monkeypatch)
    with torch.inference_mode():
        sample, timestep = torch.randn(2, 4, SIZE, SIZE), torch.tensor(999)
        for layout in (torch.contiguous_format, torch.channels_last):
            pipeline.unet(sample.contiguous(memory_format=layout), timestep)
        pipeline.unet(sample.transpose(2, 3), timestep)
    assert denoiser.eager_steps == 0


def test_a_denoiser_that_is_turned_off_runs_eagerly_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, denoiser = warmed(monkeypatch)
    denoiser.turn_off()
    assert torch.equal(pipeline.generate(2), Pipeline(Denoiser()).generate(2))


def test_a_network_is_freed_though_its_denoiser_is_compiled() -> None:
    network, denoiser = Denoiser(), CompiledDenoiser(Denoiser)
    denoiser.attach(network)
    layer = weakref.ref(network.layer)
    del network
    assert layer() is None, "nothing waits for a collection of cycles"


def test_a_pipeline_has_a_unet_a_transformer_or_no_denoiser() -> None:
    class Transformer:
        transformer = Denoiser()

    assert isinstance(denoiser_of(Transformer()), Denoiser)
    assert isinstance(denoiser_of(Pipeline(Denoiser())), Denoiser)
    assert denoiser_of(object()) is None


def test_a_variant_is_warmed_up_by_as_few_batches_as_stand_for_all_of_its_own() -> None:
    assert batches_of(a_variant()) == (1, 2)
    assert batches_of(a_variant(latency_ms={1: 20.0})) == (1,)
    assert batches_of(a_variant(guidance=2.0)) == (2,), "one guided image is two rows"
    of_8, of_16 = ({1: 20.0, size: 200.0} for size in (8, 16))
    assert batches_of(a_variant(latency_ms=of_8)) == (1, 2)
    assert batches_of(a_variant(latency_ms=of_8, guidance=2.0)) == (2, 8), "sixteen rows are convolved otherwise"
    assert batches_of(a_variant(latency_ms=of_16)) == (1, 2, 16)


def test_all_rows_from_two_on_run_code_that_was_made_for_two_or_for_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, denoiser = warmed(monkeypatch, guidance=2.0, latency_ms={1: 20.0, 8: 100.0})
    for rows in (2, 3, 15, 16, 20):
        pipeline.generate(rows)
    assert denoiser.eager_steps == 0
    pipeline.generate(1)
    assert denoiser.eager_steps == 2, "one row was not compiled for"


def test_releases_of_torch_that_cannot_keep_engines_apart_compile_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    compiling = torch.compile

    def older(model: Any, *, backend: str = "eager") -> Any:
        return compiling(model, backend=backend)

    monkeypatch.setattr(torch, "compile", older)
    pipeline, denoiser = Pipeline(Denoiser()), CompiledDenoiser(Denoiser)
    denoiser.attach(pipeline.unet)
    denoiser.warm(is_warming=True)
    pipeline.generate(2)
    denoiser.warm(is_warming=False)
    pipeline.generate(2)
    assert denoiser.eager_steps == 0
