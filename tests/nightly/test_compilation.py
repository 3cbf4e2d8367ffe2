"""A denoiser is compiled by a C++ compiler; later starts read its code, and give the images of the eager one."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from agents.engines.compiling.cache import CodeCache
from agents.engines.compiling.compilation import CACHE_DIR, COMPILED, FROM_CACHE
from tests.agents.engines.compiling.denoisers import Denoiser, Pipeline
from tests.agents.engines.compiling.test_compilation import called_compilers_s, files, opened, plain_code

__all__ = ["plain_code"]

pytestmark = pytest.mark.torch


@pytest.mark.usefixtures("plain_code")
def test_the_second_start_reads_what_the_first_one_compiled_and_gives_the_eager_images(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    monkeypatch.setenv(CACHE_DIR, str(usual))
    eager = Pipeline(Denoiser())
    pipeline, first = opened(tmp_path)
    warmed = first.warm_up(pipeline.generate)
    assert not [each for each in usual.rglob("*") if each.is_file()], "what the compiler left lies in the volume"
    assert (warmed.result, warmed.compiled, len(files(tmp_path))) == (COMPILED, 1, 1)
    assert warmed.kept_bytes == files(tmp_path)[0].stat().st_size

    pipeline, second = opened(tmp_path)
    called_s = called_compilers_s()
    warmed = second.warm_up(pipeline.generate)
    assert (warmed.result, warmed.compiled) == (FROM_CACHE, 0)
    assert called_compilers_s() == pytest.approx(called_s, abs=0.3), "no C++ compiler ran"
    assert torch.allclose(pipeline.generate(1), eager.generate(1), atol=1e-5)
    assert second.take_eager_steps() == 0

    ours = files(tmp_path)[0]
    aside = ours.rename(tmp_path / "aside")

    @contextlib.contextmanager
    def after_another_has(self: CodeCache, of: Any) -> Iterator[bool]:
        aside.rename(self.path(of))
        yield True

    monkeypatch.setattr(CodeCache, "compiling", after_another_has)
    pipeline, third = opened(tmp_path)
    warmed = third.warm_up(pipeline.generate)
    assert (warmed.result, warmed.compiled) == (FROM_CACHE, 0), (
        "it waited for who compiled the same, and read that file"
    )
