"""An engine compiles before its first request where the catalog says so, and counts calls that ran eagerly."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from prometheus_client import REGISTRY

from agents.components.opening import Keeping
from agents.engines import GenerationTask
from agents.engines.compiling.compilation import FOLDER
from agents.engines.diffusers_engine import DiffusersEngine, load
from planner.catalog.entries import Loading
from planner.catalog.options import AS_IT_IS, resolve_options
from streams import catalogs

pytestmark = pytest.mark.torch

STEPS = 2


class Compiler:
    """Stands for torch.compile: compiled code is the function itself, counted, until it fits no more."""

    def __init__(self) -> None:
        self.calls, self.fits = 0, True

    def __call__(self, function: Callable[..., Any], **_how: object) -> Callable[..., Any]:
        def compiled(*args: Any, **more: Any) -> Any:
            if not self.fits:
                raise RuntimeError("would compile again")
            self.calls += 1
            return function(*args, **more)

        return compiled


def generate(engine: DiffusersEngine) -> None:
    variant = catalogs.load("tiny").level("light")
    how = resolve_options(AS_IT_IS, variant)._replace(steps=STEPS)
    assert engine.generate([GenerationTask(request_id="r", prompt="a red heart", seed=7)], how, lambda: False)


def eager_calls() -> float:
    return REGISTRY.get_sample_value("pochade_fallbacks_total", {"role": "worker", "kind": "not-compiled"}) or 0.0


def test_an_engine_warms_up_as_it_is_loaded_and_each_step_of_a_request_runs_that_code(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = Compiler()
    monkeypatch.setattr(torch, "compile", compiler)
    variant = catalogs.load("tiny").level("light")
    engine = load(dataclasses.replace(variant, loading=Loading(device="cpu", compile=True)), 1, Keeping(home=tmp_path))
    assert engine.is_compiled
    assert (tmp_path / "components" / FOLDER).is_dir(), "in the volume of the worker's home"
    warmed, before = compiler.calls, eager_calls()
    assert warmed > 0
    generate(engine)
    assert compiler.calls == warmed + STEPS
    assert eager_calls() == before

    compiler.fits = False
    generate(engine)
    assert eager_calls() == before + 1, "one for a call, not for each step"


def test_an_engine_of_another_variant_calls_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    monkeypatch.setattr(torch, "compile", compiler)
    variant = catalogs.load("tiny").level("light")
    engine = load(dataclasses.replace(variant, loading=Loading(device="cpu")), 1)
    assert not engine.is_compiled
    generate(engine)
    assert compiler.calls == 0
