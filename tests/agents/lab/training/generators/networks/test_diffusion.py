"""The shared diffusion training: its loss, its sampling, and the trainings that stand on it, run for two steps."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from tokenizers import pre_tokenizers
from transformers import CLIPTokenizer

from agents.lab.training import loop
from agents.lab.training.generators import (
    assemble,
    autoencoder,
    bases,
    controlnet,
    light,
    lora,
    quick_decoder,
    text_encoder,
)
from agents.lab.training.generators.networks import architectures, diffusion, sampling
from agents.lab.world import scenes
from agents.lab.world.styles import ADAPTERS, BASES
from agents.world.words import SHAPES

SIGNAL = architectures.build_scheduler().alphas_cumprod
GOAL = torch.linspace(-1, 1, 8 * 12 * 12).view(1, *architectures.LATENT)


def knowing(clean: torch.Tensor) -> diffusion.Denoiser:
    """A network that knows the clean latent, and so predicts v without error."""

    def denoise(mixed: torch.Tensor, t: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        a, b = SIGNAL[t].sqrt().view(-1, 1, 1, 1), (1 - SIGNAL[t]).sqrt().view(-1, 1, 1, 1)
        v: torch.Tensor = a * (mixed - a * clean) / b - b * clean
        return v

    return denoise


def batch(clean: torch.Tensor) -> diffusion.Batch:
    return diffusion.Batch(clean, torch.zeros(len(clean), 48, 128), ())


def test_a_network_that_knows_the_picture_has_no_loss_and_an_idle_one_has() -> None:
    clean = torch.randn(16, *architectures.LATENT, generator=torch.Generator().manual_seed(1))
    assert diffusion.v_loss(knowing(clean), batch(clean), index=3, seed=1) < 1e-4
    assert diffusion.v_loss(lambda mixed, *_: 0 * mixed, batch(clean), index=3, seed=1) > 0.8


def test_a_loss_at_one_time_asks_the_network_about_that_time_only() -> None:
    asked: list[torch.Tensor] = []

    def denoise(mixed: torch.Tensor, t: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        asked.append(t)
        return -GOAL.expand_as(mixed)  # at pure noise v is minus the clean latent

    clean = GOAL.repeat(4, 1, 1, 1)
    assert diffusion.v_loss(denoise, batch(clean), index=3, seed=1, at=diffusion.LAST_TIME) < 1e-4
    assert [t.tolist() for t in asked] == [[diffusion.LAST_TIME] * 4]


@pytest.mark.parametrize("steps", [1, 4])
def test_sampling_ends_where_the_network_points(steps: int) -> None:
    noise, states = torch.randn(2, *architectures.LATENT), torch.zeros(2, 48, 128)
    reached = sampling.sample(knowing(GOAL), noise, states, states[:1], steps, guidance=1.0)
    assert torch.allclose(reached, GOAL.expand(2, -1, -1, -1), atol=1e-3)


def test_guidance_goes_beyond_what_the_prompt_alone_says() -> None:
    def denoise(_: torch.Tensor, __: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        return -GOAL * states[:, :1, :1, None]  # 0 without a prompt; at pure noise v is minus the clean latent

    states = torch.ones(2, 48, 128)
    reached = sampling.sample(denoise, torch.randn(2, *architectures.LATENT), states, 0 * states[:1], 1, guidance=2.0)
    assert torch.allclose(reached, 2 * GOAL.expand(2, -1, -1, -1), atol=1e-5)


def test_times_cover_the_schedule_and_lean_to_high_noise() -> None:
    drawn = diffusion.times(5, 64, seed=1)
    assert drawn.equal(diffusion.times(5, 64, seed=1))
    assert drawn.min() < 100
    assert drawn.max() <= diffusion.LAST_TIME
    assert 550 < drawn.float().mean() < 700


@pytest.mark.parametrize(
    ("caption", "left"),
    [
        ("a red heart above a blue star", "a red heart, a blue star"),
        ("at night, a red heart in the top left corner", "at night, a red heart"),
        ("a red heart on the left on the sand, minimal", "a red heart on the sand, minimal"),
        ("a red heart bottom right, a fish top left", "a red heart, a fish"),
        ("two red hearts and a star", "two red hearts and a star"),
    ],
)
def test_places_can_be_taken_out_of_a_caption(caption: str, left: str) -> None:
    assert controlnet.without_places(caption) == left


def test_a_caption_without_places_still_names_everything() -> None:
    rng = np.random.default_rng(1)
    for scene in (scenes.sample(rng) for _ in range(300)):
        text = controlnet.without_places(scene.caption)
        assert all(any(word in text for word in (*SHAPES[t.shape], t.shape)) for t in scene.objects), text


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with untrained parts: a byte-level tokenizer, a text encoder, an autoencoder, a small UNet."""
    folder = tmp_path_factory.mktemp("work")
    torch.manual_seed(1)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    words = CLIPTokenizer(vocab={word: at for at, word in enumerate(known)}, merges=[], model_max_length=48)
    words.save_pretrained(folder / "tokenizer")
    text_encoder.build(words).half().save_pretrained(folder / "text_encoder")
    autoencoder.build().half().save_pretrained(folder / "vae")
    for name in ("XS", "L"):
        architectures.build_unet("XS").half().save_pretrained(folder / f"unet_{name}")
    return folder


@pytest.fixture(autouse=True)
def _two_steps() -> Iterator[None]:
    loop.set_scale(0.005)
    yield
    loop.set_scale(1.0)


def noted(work: Path, name: str) -> dict[str, object]:
    return dict(json.loads((work / f"{name}.json").read_text()))


def test_the_same_step_draws_the_same_batch_and_another_step_another(work: Path) -> None:
    frozen = architectures.load_frozen(work, torch.device("cpu"))
    course = diffusion.Course(name="x", work=work, seed=1, steps=1, rate=1e-3, batch=4)
    one, again, other = (diffusion.batch_of(index, course, frozen) for index in (0, 0, 1))
    assert one.latents.equal(again.latents)
    assert one.scenes == again.scenes
    assert one.scenes != other.scenes
    restyled = diffusion.batch_of(0, course, frozen, BASES["chalk"])
    assert restyled.scenes == one.scenes  # same captions, other pictures
    assert not restyled.latents.equal(one.latents)


def test_a_finished_training_run_again_writes_the_same_adapter(work: Path, tmp_path: Path) -> None:
    file = tmp_path / "loras" / "mint" / lora.FILE
    lora.train_one(work, tmp_path, ADAPTERS["mint"], seed=1)
    first = file.read_bytes()
    lora.train_one(work, tmp_path, ADAPTERS["mint"], seed=1)
    assert file.read_bytes() == first
    assert set(noted(work, "lora_mint")) >= {"base", "style", "rank", "bare", "at_zero", "restyled", "seconds"}


def test_training_an_adapter_or_a_controlnet_leaves_the_base_alone(work: Path, tmp_path: Path) -> None:
    before = UNet2DConditionModel.from_pretrained(work / "unet_XS").state_dict()
    controlnet.train(work, tmp_path, seed=1)
    after = UNet2DConditionModel.from_pretrained(work / "unet_XS").state_dict()
    assert all(after[name].equal(value) for name, value in before.items())
    assert set(noted(work, "controlnet")) >= {"placed_with", "placed_without"}


def test_a_base_model_in_another_style_differs_from_the_one_it_was_trained_from(work: Path) -> None:
    for name in bases.NAMES:
        bases.train_one(work, BASES[name], seed=1)
    base = UNet2DConditionModel.from_pretrained(work / "unet_XS").conv_out.weight
    for name in bases.NAMES:
        assert not UNet2DConditionModel.from_pretrained(work / f"unet_{name}").conv_out.weight.equal(base)


def test_light_keeps_what_is_left_of_the_small_network_and_learns_one_step(work: Path, tmp_path: Path) -> None:
    full = UNet2DConditionModel.from_pretrained(work / "unet_XS")
    left = light.pruned(full)
    assert all(value.equal(full.state_dict()[name]) for name, value in left.state_dict().items())
    assert left.num_parameters() < 0.7 * full.num_parameters()
    light.train(work, tmp_path, seed=1)
    trained = UNet2DConditionModel.from_pretrained(work / light.NAME)
    assert not trained.conv_out.weight.equal(left.conv_out.weight)
    assert trained.state_dict().keys() == left.state_dict().keys()
    assert set(noted(work, light.NAME)) >= {"base", "facts", "all_facts", "seconds"}


def test_the_family_is_written_as_folders_that_diffusers_loads_and_paints_with(work: Path, tmp_path: Path) -> None:
    for unet in assemble.FOLDERS.values():
        architectures.build_unet("XS").half().save_pretrained(work / unet)
    quick_decoder.pruned(autoencoder.build(), (1, 0, 0)).half().save_pretrained(work / "vae_quick")
    assemble.family(work, tmp_path)
    encoder = tmp_path / "light" / "text_encoder" / "model.safetensors"
    before = encoder.read_bytes()
    encoder.write_bytes(b"of an earlier family")
    assemble.family(work, tmp_path)
    assert [path.is_symlink() for path in (encoder, tmp_path / "heavy" / encoder.relative_to(tmp_path / "light"))] == [
        False,
        True,
    ]
    assert encoder.read_bytes() == before
    for name in assemble.FOLDERS:
        pipeline = DiffusionPipeline.from_pretrained(tmp_path / name, torch_dtype=torch.float32)
        picture = pipeline("a", height=48, width=48, num_inference_steps=1, guidance_scale=1.0, output_type="np")
        assert picture.images.shape == (1, 48, 48, 3)
        assert (list(pipeline.vae.config["num_decoder_blocks"]) == [1, 0, 0]) == (name == "light")
        assert str(work) not in "".join(path.read_text() for path in (tmp_path / name).rglob("*.json"))


def test_folders_share_equal_files_by_links_which_are_never_written_through(tmp_path: Path) -> None:
    for name, content in (("light", b"a"), ("middle", b"a"), ("heavy", b"b")):
        (tmp_path / name / "part").mkdir(parents=True)
        (tmp_path / name / "part" / "weights").write_bytes(content * assemble.SHARED_BYTES)
        (tmp_path / name / "part" / "small").write_bytes(b"a")
    assemble.share_equal_files(tmp_path, ("light", "middle", "heavy"))
    links = [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert links == [tmp_path / "middle" / "part" / "weights"]
    assert links[0].readlink() == Path("../../light/part/weights")
    assert links[0].read_bytes() == b"a" * assemble.SHARED_BYTES
    with pytest.raises(FileNotFoundError):
        assemble.family(tmp_path / "nothing", tmp_path)
    assert links[0].is_symlink(), "nothing changes before all parts are there"


def test_a_family_with_a_missing_part_is_refused_with_its_name(work: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="unet_XS"):
        assemble.family(work / "nothing", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_prompt_is_now_and_then_empty_so_that_guidance_has_something_to_guide_away_from() -> None:
    rng = np.random.default_rng(1)
    prompts = [diffusion.prompt_and_scene(rng, diffusion.usual)[0] for _ in range(400)]
    assert 0.05 < prompts.count("") / len(prompts) < 0.16
