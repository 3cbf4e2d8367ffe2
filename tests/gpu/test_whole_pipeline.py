"""The check for a machine with a GPU, at toy size on the CPU; and its models of full size, without weights."""

import json
import pathlib

import pytest
import torch

from tests.gpu import whole_pipeline

pytestmark = pytest.mark.torch
BILLIONS = {"sdxl": 2.567, "flux-dev": 11.901}  # parameters of the denoiser, as published


def test_the_check_runs_at_toy_size_and_generates_the_pixels_of_bare_diffusers(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "found.json"
    found = whole_pipeline.main(["--size", "toy", "--device", "cpu", "--repeats", "1", "--out", str(out)])
    rows = {(row["row"], row["model"]): row for row in found["rows"]}
    assert json.loads(out.read_text()) == found
    assert not [row for row in rows.values() if "left_out" in row]
    for model in ("sdxl", "flux-dev"):
        assert rows["one", model]["differ"] == rows["four", model]["differ"] == 0
    assert rows["cascade", "sdxl to flux-dev"]["escalated"] > 0
    cached = rows["cached", "flux-dev"]
    assert "worker_s" in cached or "cache_dit" in cached["failed"], cached


@pytest.mark.parametrize("model", whole_pipeline.FULL)
def test_its_models_of_full_size_have_the_published_number_of_parameters(model: str) -> None:
    pipeline = whole_pipeline.build(model, "meta", torch.bfloat16)
    denoiser = getattr(pipeline, "unet", None) or pipeline.transformer
    assert round(sum(weights.numel() for weights in denoiser.parameters()) / 1e9, 3) == BILLIONS[model]
    assert {weights.dtype for weights in denoiser.parameters()} == {torch.bfloat16}
