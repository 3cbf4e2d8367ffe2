"""Models of SDXL's and of FLUX's size through a whole deployment in one process, in turns with bare diffusers.

    python -m tests.gpu.whole_pipeline --out OUT.json                           # a card of 80 GB: within eight minutes
    python -m tests.gpu.whole_pipeline --size toy --device cpu --out OUT.json   # any machine: in seconds

Models are made on the device from their published configurations with random weights: times and memory are those of the
real ones, images are noise. They replace what the engine would read; all else is the product's: classifier, router,
worker, discriminator, ledger, store, and the engine `diffusers` with its claims. Rows, written as they are measured:

    build    seconds, parameters of the denoiser, bytes of all weights
    ready    seconds from the start of the roles to the first result, with the claims that are tried
    one      one image: seconds of the bare call, the request, the worker; peaks; `differ`: a pixel's mean, of 255
    four     four images, once: one bare call, four requests at once
    cascade  both models, the first one's images judged: seconds of all requests, how many were escalated
    compiled, cached   one image with `loading.compile` and with `loading.cache`: whatever cache-dit skips for noise

What does not fit the budget is left out, and said so. What fails is a row, too.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import io
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import diffusers
import numpy as np
import torch
import transformers
from PIL import Image

from agents.engines import pipelines
from agents.in_process.deployment import InProcess
from planner.catalog.entries import Loading, Variant
from planner.catalog.model import Pair
from schemas.messages import GenerateRequest, Result, Route
from streams.clock import now_ms
from streams.settings import load
from streams.shipped import MODELS
from tests.builders import a_cascade, a_catalog, a_discriminator, a_plan, a_variant
from tests.memory_store import MemoryImageStore
from tests.toys import FAMILIES, randomize
from tests.toys.families import DIFFUSION
from tests.toys.parts import dynamic_flow_scheduler
from tests.toys.tokenizers import clip_tokenizer, t5_tokenizer

SDXL, FLUX = "sdxl", "flux-dev"
STEPS: Final = {SDXL: 30, FLUX: 28}
GUIDANCE: Final = {SDXL: 5.0, FLUX: 3.5}
COSTS_S: Final = {SDXL: 4.0, FLUX: 12.0}  # of an image, at most: what a row is left out by
AT_ONCE: Final = 4
PROMPTS: Final = 6  # of the cascade
CACHE: Final = {"residual_diff_threshold": 0.12}


# Full size, by the configurations that are published with the weights.


def _clip(width: int, layers: int, heads: int, *, projection: int = 0, act: str = "quick_gelu") -> Any:
    config = transformers.CLIPTextConfig(
        vocab_size=49408, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=heads, projection_dim=projection or width, max_position_embeddings=77, hidden_act=act,
        bos_token_id=512, eos_token_id=513, pad_token_id=513,
    )  # fmt: skip
    return (transformers.CLIPTextModelWithProjection if projection else transformers.CLIPTextModel)(config)


def _autoencoder(channels: int, **more: Any) -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=channels, sample_size=1024,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, **more,
    )  # fmt: skip


def sdxl(scheduler: Any) -> Any:
    """Return SDXL base 1.0: a UNet of 2.57 B parameters."""
    unet = diffusers.UNet2DConditionModel(
        sample_size=128, block_out_channels=(320, 640, 1280), layers_per_block=2, attention_head_dim=(5, 10, 20),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), use_linear_projection=True,
        transformer_layers_per_block=(1, 2, 10), cross_attention_dim=2048, addition_embed_type="text_time",
        addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816,
    )  # fmt: skip
    return diffusers.StableDiffusionXLPipeline(
        unet=unet, vae=_autoencoder(4, scaling_factor=0.13025), text_encoder=_clip(768, 12, 12),
        tokenizer=clip_tokenizer(), text_encoder_2=_clip(1280, 32, 20, projection=1280, act="gelu"),
        tokenizer_2=clip_tokenizer(), scheduler=scheduler, add_watermarker=False,
    )  # fmt: skip


def flux(scheduler: Any) -> Any:
    """Return FLUX.1 dev: a transformer of 11.9 B parameters, and T5's encoder of 4.8 B."""
    t5 = transformers.T5Config(
        vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64,
        feed_forward_proj="gated-gelu", is_encoder_decoder=False,
    )  # fmt: skip
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=64, num_layers=19, num_single_layers=38, attention_head_dim=128,
        num_attention_heads=24, joint_attention_dim=4096, pooled_projection_dim=768, axes_dims_rope=(16, 56, 56),
        guidance_embeds=True,
    )  # fmt: skip
    vae = _autoencoder(16, scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False)
    return diffusers.FluxPipeline(
        transformer=transformer, vae=vae, scheduler=scheduler, text_encoder=_clip(768, 12, 12),
        tokenizer=clip_tokenizer(), text_encoder_2=transformers.T5EncoderModel(t5), tokenizer_2=t5_tokenizer(),
    )  # fmt: skip


def _euler() -> Any:
    return diffusers.EulerDiscreteScheduler(**DIFFUSION, steps_offset=1)


FULL: Final = {SDXL: (sdxl, _euler), FLUX: (flux, dynamic_flow_scheduler)}


def build(model: str, device: str, dtype: torch.dtype) -> Any:
    """Return a model of full size with networks that are made on a device, their weights not yet drawn."""
    from transformers.initialization import no_init_weights

    of_parts, scheduler = FULL[model]
    made, before = scheduler(), torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device), no_init_weights():
            return of_parts(made)
    finally:
        torch.set_default_dtype(before)


class Models:
    """The models on the device, and what the engine gets in place of what it would read."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._device, self._is_full = args.device, args.size == "full"
        self._dtype = torch.bfloat16 if args.device.startswith("cuda") else torch.float32
        self.made: dict[str, Any] = {}
        self.cache = CACHE if self._is_full else {**CACHE, "Fn_compute_blocks": 1}

    def make(self, name: str) -> Any:
        """Make a model on the device: without a copy in host memory at full size."""
        if self._is_full:
            pipeline = build(name, self._device, self._dtype)
            _fill(pipeline)
        else:
            randomize(pipeline := FAMILIES[name](), 0)
        for part in networks(pipeline):
            part.to(self._device, self._dtype).eval().requires_grad_(False)
        self.made[name] = pipeline
        return pipeline

    def fresh(self, source: str, **_: Any) -> Any:
        """Return a new pipeline of a made model's parts."""
        made = self.made[source]
        pipeline = type(made)(**made.components)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def variant(self, name: str, **loading: Any) -> Variant:
        """Return the variant of the catalog that serves a model."""
        side, of = (1024, COSTS_S[name] * 1000) if self._is_full else (64, 100.0)
        return a_variant(
            name=name, engine="diffusers", model=name, steps=STEPS[name] if self._is_full else 4, width=side,
            height=side, guidance=GUIDANCE[name], latency_ms={1: of, AT_ONCE: AT_ONCE * of}, load_ms=1000.0,
            honours=("steps", "guidance"),
            loading=Loading(device=self._device, dtype=str(self._dtype).removeprefix("torch."), **loading),
        )  # fmt: skip


@torch.no_grad()
def _fill(pipeline: Any) -> None:
    """Draw weights on their device, small enough for values to stay finite in 16 bits."""
    for part in networks(pipeline):
        for name, weights in part.named_parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.5 / weights[0].numel() ** 0.5)
            else:
                weights.fill_(float("norm" in name and name.endswith("weight")))


def networks(pipeline: Any) -> list[torch.nn.Module]:
    """Return the networks of a pipeline."""
    return [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]


class Bare:
    """Bare diffusers with the same parts, options and noise as the engine."""

    def __init__(self, models: Models, variant: Variant) -> None:
        self._pipeline, self._variant = models.fresh(variant.model), variant

    def __call__(self, seeds: Sequence[int]) -> list[Image.Image]:
        """Generate an image for each seed."""
        variant, pipeline = self._variant, self._pipeline
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        given: dict[str, Any] = {}
        if variant.name == SDXL and pipeline.dtype != torch.float32:  # as agents/engines/noise.py says
            side = variant.width // pipeline.vae_scale_factor
            noise = torch.stack([torch.randn((4, side, side), generator=each) for each in generators])
            given["latents"] = noise.to(pipeline.device, pipeline.dtype)
        with torch.inference_mode(), _unwatched(pipeline.vae):
            made: list[Image.Image] = pipeline(
                prompt=[prompt_of(seed) for seed in seeds], num_inference_steps=variant.steps,
                guidance_scale=variant.guidance, width=variant.width, height=variant.height, generator=generators,
                **given,
            ).images  # fmt: skip
        return made


@contextlib.contextmanager
def _unwatched(vae: Any) -> Iterator[None]:
    """Without the engine's stopwatch on the shared autoencoder, which waits for the device."""
    kept = {name: vae.__dict__.pop(name) for name in ("encode", "decode") if name in vae.__dict__}
    try:
        yield
    finally:
        vae.__dict__.update(kept)


def prompt_of(seed: int) -> str:
    """Return the prompt that goes with a seed."""
    return f"a castle at dusk, number {seed}"


class Deployment:
    """A deployment of variants, a worker each: the first one's images are judged if there are two."""

    def __init__(self, variants: Sequence[Variant]) -> None:
        names = [variant.name for variant in variants]
        folder = "models/discriminators/look"
        learned = {"engine": "learned", "folder": folder} if (MODELS.parent / folder).is_dir() else {}
        cascades = (Pair(names[0], names[1], "look"),) if len(names) > 1 else ()
        catalog = a_catalog(
            variants={variant.name: variant for variant in variants}, cascades=cascades, class_cuts={},
            discriminators={"look": a_discriminator(**learned)},
        )  # fmt: skip
        plan = a_plan(
            created_ms=now_ms(), allocation={f"worker-{n}": name for n, name in enumerate(names, 1)},
            batch=dict.fromkeys(names, AT_ONCE), routes=(Route(levels={names[0]: 1.0}),),
            cascades=tuple(a_cascade(level=p.light, next_level=p.heavy, threshold=0.9) for p in cascades),
        )  # fmt: skip
        self.store, self._count = MemoryImageStore(), 0
        self.deployed = InProcess(load({}), workers=len(names), catalog=catalog, store=self.store, plan=plan)

    async def __aenter__(self) -> "Deployment":
        await self.deployed.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.deployed.__aexit__(*error)

    async def results(self, seeds: Sequence[int], limit_s: float) -> list[Result]:
        """Submit a request for each seed, and return the results. Raises RuntimeError for one without an image."""
        ids = []
        for seed in seeds:
            self._count += 1
            ids.append(f"r-{self._count}")
            await self.deployed.submit(
                GenerateRequest(request_id=ids[-1], prompt=prompt_of(seed), seed=seed, created_ms=now_ms())
            )
        async with asyncio.timeout(limit_s):
            found = [await self.deployed.result(each) for each in ids]
        for result in found:
            if result.image_uri is None:
                raise RuntimeError(f"{result.request_id} is {result.status}: {result.reason}")
        return found

    def image(self, result: Result) -> Image.Image:
        """Return the image of a result."""
        return Image.open(io.BytesIO(self.store.get(result.image_uri or "")))


class Check:
    """The measurements, and the file that they are written to."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._began = args, time.monotonic()
        self.models = Models(args)
        self.found: dict[str, Any] = {"machine": _machine(args), "rows": []}

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return float(self._args.budget - (time.monotonic() - self._began))

    def add(self, kind: str, model: str, **figures: Any) -> None:
        """Write a row."""
        self.found["rows"].append({"row": kind, "model": model, **figures})
        self.found["took_s"] = round(time.monotonic() - self._began, 1)
        pathlib.Path(self._args.out).write_text(json.dumps(self.found, indent=1) + "\n")
        print(f"[{self.found['took_s']:6.1f} s] {kind} {model} {figures}", flush=True)

    async def measure(self) -> None:
        """Measure all that fits the budget."""
        for model in (SDXL, FLUX):
            await self._row("build", model, 60, self._build)
        for model in (SDXL, FLUX):
            await self._row("ready", model, 18 * COSTS_S[model], self._levels)
        await self._row("cascade", f"{SDXL} to {FLUX}", PROMPTS * sum(COSTS_S.values()), self._cascade)
        await self._row("cached", FLUX, 60, lambda model: self._faster("cached", model, cache=self.models.cache))
        if self._args.device.startswith("cuda"):  # on a CPU it takes a compiler, and minutes
            await self._row("compiled", SDXL, 100, lambda model: self._faster("compiled", model, compile=True))

    async def _row(self, kind: str, model: str, needs_s: float, run: Callable[[str], Any]) -> None:
        if self._args.size == "full" and self.left_s < needs_s:
            self.add(kind, model, left_out=f"{self.left_s:.0f} s are left, it may take {needs_s:.0f}")
            return
        try:
            await run(model)
        except Exception as error:  # what fails is a finding, and the other rows are worth having
            self.add(kind, model, failed=f"{type(error).__name__}: {error}"[:500])
        gc.collect()
        if self._args.device.startswith("cuda"):
            torch.cuda.empty_cache()

    async def _build(self, model: str) -> None:
        began = time.perf_counter()
        pipeline = await asyncio.to_thread(self.models.make, model)
        self._wait()
        seconds = round(time.perf_counter() - began, 2)
        denoiser = getattr(pipeline, "unet", None) or pipeline.transformer
        weights = [each for part in networks(pipeline) for each in part.parameters()]
        self.add(
            "build", model, s=seconds, denoiser_parameters=sum(each.numel() for each in denoiser.parameters()),
            bytes=sum(each.numel() * each.element_size() for each in weights),
        )  # fmt: skip

    async def _levels(self, model: str) -> None:
        """One level alone: its first result, one image in turns with the bare call, and several at once."""
        variant = self.models.variant(model)
        bare = Bare(self.models, variant)
        began = time.perf_counter()
        async with Deployment([variant]) as deployment:
            await deployment.results([0], self.left_s)
            self.add("ready", model, s=round(time.perf_counter() - began, 2))
            turns = [await self._turn(deployment, bare, [1]) for _ in range(self._args.repeats + 1)]
            self.add("one", model, steps=variant.steps, side=variant.width, **_in_turns(turns[1:]))
            turn = await self._turn(deployment, bare, range(1, AT_ONCE + 1))
            self.add("four", model, steps=variant.steps, side=variant.width, **_in_turns([turn]))

    async def _turn(self, deployment: Deployment, bare: Bare, seeds: Sequence[int]) -> dict[str, float]:
        """Measure the bare call, and the requests for the same images."""
        self._forget_peak()
        began = time.perf_counter()
        theirs = await asyncio.to_thread(bare, seeds)
        self._wait()
        bare_s, bare_peak = time.perf_counter() - began, self._peak()
        self._forget_peak()
        began = time.perf_counter()
        results = await deployment.results(seeds, max(self.left_s, 1))
        request_s = time.perf_counter() - began
        ours = [deployment.image(result) for result in results]
        return {
            "bare_s": bare_s, "request_s": request_s, "worker_s": sum(each.generate_ms for each in results) / 1000,
            "bare_peak": bare_peak, "peak": self._peak(), "differ": _difference(ours, theirs),
        }  # fmt: skip

    async def _cascade(self, name: str) -> None:
        async with Deployment([self.models.variant(model) for model in (SDXL, FLUX)]) as deployment:
            await deployment.results([0], self.left_s)
            self._forget_peak()
            began = time.perf_counter()
            results = await deployment.results(range(1, PROMPTS + 1), self.left_s)
            self.add(
                "cascade", name, s=round(time.perf_counter() - began, 3), requests=len(results), peak=self._peak(),
                escalated=sum(each.escalated for each in results), levels=[each.level for each in results],
                latency_ms=[each.latency_ms for each in results], worker_ms=[each.generate_ms for each in results],
            )  # fmt: skip

    async def _faster(self, kind: str, model: str, **loading: Any) -> None:
        """Measure a variant that is faster; last of its model, as its denoiser stays so."""
        plain = next(each for each in self.found["rows"] if each["row"] == "one" and each["model"] == model)
        began = time.perf_counter()
        async with Deployment([self.models.variant(model, **loading)]) as deployment:
            await deployment.results([0], self.left_s)
            ready_s = time.perf_counter() - began
            took = []
            for _ in range(self._args.repeats):
                (result,) = await deployment.results([1], self.left_s)
                took.append(result.generate_ms / 1000)
            worker_s = statistics.median(took)
            self.add(
                kind, model, options=loading, ready_s=round(ready_s, 2),
                worker_s=round(worker_s, 4), times_as_fast=round(plain["worker_s"] / worker_s, 3),
            )  # fmt: skip

    def _wait(self) -> None:
        if self._args.device.startswith("cuda"):
            torch.cuda.synchronize()

    def _peak(self) -> int:
        return int(torch.cuda.max_memory_allocated()) if self._args.device.startswith("cuda") else 0

    def _forget_peak(self) -> None:
        if self._args.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()


@dataclasses.dataclass(frozen=True)
class _Given:
    """Stands in for `DiffusionPipeline` where the engine would read a folder."""

    models: Models

    def from_pretrained(self, source: str, **more: Any) -> Any:
        return self.models.fresh(source, **more)


def _in_turns(turns: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians of the turns, with all values of seconds beside them."""
    row: dict[str, Any] = {name: round(statistics.median(turn[name] for turn in turns), 4) for name in turns[0]}
    row["worker_of_bare"] = round(row["worker_s"] / row["bare_s"], 4)
    row["all"] = {name: [round(turn[name], 4) for turn in turns] for name in ("bare_s", "request_s", "worker_s")}
    return row


def _difference(ours: Sequence[Image.Image], theirs: Sequence[Image.Image]) -> float:
    pairs = zip(ours, theirs, strict=True)
    return float(np.mean([np.abs(np.asarray(a, np.float32) - np.asarray(b, np.float32)).mean() for a, b in pairs]))


def _machine(args: argparse.Namespace) -> dict[str, Any]:
    is_cuda = args.device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name(args.device) if is_cuda else "cpu", "size": args.size,
        "torch": torch.__version__, "diffusers": diffusers.__version__, "transformers": transformers.__version__,
        "budget_s": args.budget,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, and return what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "toy"), default="full")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each row, after one that does not count")
    parser.add_argument("--budget", type=float, default=420, help="seconds in which all must end")
    parser.add_argument("--out", required=True, help="file that the rows are written to")
    check, before = Check(parser.parse_args(argv)), pipelines.DiffusionPipeline
    try:
        pipelines.DiffusionPipeline = _Given(check.models)
        asyncio.run(check.measure())
    finally:
        pipelines.DiffusionPipeline = before
    return check.found


if __name__ == "__main__":
    main()
