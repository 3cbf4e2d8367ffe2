"""The `diffusers` engine: any folder or hub id that `DiffusionPipeline.from_pretrained` reads, on CPU or CUDA."""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.utils import logging as diffusers_logging
from PIL.Image import Image
from transformers.utils import logging as transformers_logging

from agents.components.opening import Keeping
from agents.components.store import ComponentStore
from agents.components.weight_files import digest_of
from agents.engines import (
    CannotRefine,
    EncodedPrompts,
    EngineFailed,
    Generated,
    GenerationTask,
    MadeWith,
    Previews,
    ShouldStop,
)
from agents.engines.accelerating import begin_call, end_guidance
from agents.engines.claims import check_signature, try_claims
from agents.engines.compiling.compilation import FAILED, Compilation, Warmed
from agents.engines.composing import Components, check_offered
from agents.engines.families import Stopped, call_arguments, signature_of, sizes_of
from agents.engines.finite import check_made
from agents.engines.image_to_image import auto_image_to_image, image_to_image, strength_of, take_latents
from agents.engines.latent_spaces import latent_space_of
from agents.engines.masking import Masked
from agents.engines.noise import starting_noise
from agents.engines.pipelines import device_of, load_pipeline, sources_of
from agents.engines.previewing import StepPreviews
from agents.engines.stopwatch import Stopwatch
from agents.engines.text_encoding import TextLimits, encode_ahead, prompts_of
from planner.catalog.components import NOTHING
from planner.catalog.entries import Variant
from planner.catalog.options import AS_IT_IS, ResolvedOptions, resolve_options
from schemas.messages import CallTimes
from streams import metrics
from streams.store.latents import Latent, LatentSpace, UnfitLatent

log = logging.getLogger(__name__)

_LOADING = threading.Lock()  # diffusers and transformers patch torch while they load: two loads at once break both

WARM_UP_STEPS = 2  # the second one's latent is the scheduler's, which has other strides than noise


class DiffusersEngine:
    """An engine of one variant with its steps, guidance and size: of one loaded pipeline, or of components."""

    def __init__(self, pipeline: Any, variant: Variant, keeping: Keeping | None = None) -> None:
        """`pipeline`: None for a variant with components, whose default base is loaded here. Raises EngineFailed."""
        self._watch = Stopwatch()
        self._variant = variant
        self._compilation = Compilation(variant, keeping) if variant.loading.compile else None
        self.warmed: Warmed | None = None  # result of compiling; None if the variant is not compiled
        self.components: Components | None = None
        if variant.components:
            self.components = Components(variant, partial(_base_of, variant), self._equipped, keeping)
            pipeline = self.components.opened()
        self._pipeline = None if self.components else self._equipped(pipeline)
        self._is_trying = False  # what it generates is no request's
        self._over: Any = None  # the model as a pipeline that begins with an image, made when it is first needed
        self._over_of: Any = None  # the pipeline whose parts it shares
        self.latent_space = None if variant.bases else latent_space_of(pipeline)
        self.kind = type(pipeline).__name__
        self.shows_previews = bool(signature_of(pipeline).callback)
        self._made_with = _made_with(variant, pipeline, keeping or Keeping())
        self.cuts = TextLimits(pipeline).cuts  # of the default base: all bases of a variant are of one architecture

    def _equipped(self, pipeline: Any) -> Any:
        """A pipeline that is measured, and whose denoiser runs compiled where the variant is compiled."""
        watched = self._watch.watch(pipeline)
        return self._compilation.equip(watched) if self._compilation else watched

    def compile(self) -> None:
        """Compile the denoiser, or read its code from the volume, where the catalog asks for it."""
        if self._compilation:
            self.warmed = self._compilation.warm_up(self._warm)

    def _warm(self, images: int) -> None:
        """Generate as the first requests will, with few steps: later ones run the same code."""
        own = resolve_options(AS_IT_IS, self._variant)
        tasks = [GenerationTask(request_id="warm-up", prompt="", seed=seed) for seed in range(images)]
        self.generate(tasks, own._replace(n=images, steps=min(own.steps, WARM_UP_STEPS)), lambda: False)

    def try_claims(self) -> None:
        """Try what the catalog says of the variant, which warms it up. Raises EngineFailed for what does not hold."""
        task = GenerationTask(request_id="warm-up", prompt="a house by the sea", seed=1)

        def generate(how: ResolvedOptions) -> Image:
            made = self.generate([task], how, lambda: False)
            assert made is not None, "nothing stops it"
            return made.images[0]

        self._is_trying = True
        check_signature(self._variant, self._plain())
        check_offered(self._variant, self._plain())
        try_claims(self._variant, self._plain(), generate, is_compiled=self.is_compiled)
        self._is_trying = False

    @property
    def is_compiled(self) -> bool:
        """Whether its denoiser runs code that was compiled."""
        return self.warmed is not None and self.warmed.result != FAILED

    @property
    def store(self) -> ComponentStore | None:
        """Where its components lie; None for a variant without any."""
        return self.components.store if self.components else None

    def made_with(self, how: ResolvedOptions) -> MadeWith:
        """As of `SaysMadeWith`."""
        if self.components is None:
            return self._made_with
        ids, digest_of_component = how.components.ids, self.components.store.digest_of
        weights = {id_: digest_of_component(id_.partition("@")[0]) for id_ in ids}
        own = {} if how.components.base else {"model": digest_of_component(self.components.own_id)}
        return self._made_with._replace(weights=own | weights)

    def peak_device_bytes(self) -> int:
        """Return the peak that torch has allocated on CUDA; 0 on a CPU."""
        device = device_of(self._variant.loading)
        return int(torch.cuda.max_memory_allocated(device)) if device.startswith("cuda") else 0

    def free(self) -> None:
        """Give the memory back that torch keeps without a tensor in it."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Free host memory."""
        if self.components:
            self.components.store.close()

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        """Encode the prompts of a call before it is made; None for a pipeline whose prompts are not encoded apart."""
        if how.components != NOTHING:
            return None
        with self._calling():
            return encode_ahead(self._plain(), tasks, how)

    def _calling(self) -> contextlib.AbstractContextManager[None]:
        return self.components.store.call() if self.components else contextlib.nullcontext()

    def _plain(self) -> Any:
        """The pipeline of the model itself, without adapters."""
        if self.components is None:
            return self._pipeline
        return self.components.opened() if self._is_trying else self.components.pipeline()

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        with self._calling():
            return self._generate(
                tasks, how, should_stop, wants_latents=wants_latents, encoded=encoded, previews=previews
            )

    def _generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool, encoded: EncodedPrompts | None, previews: Previews | None,
    ) -> Generated | None:  # fmt: skip
        loading = self._variant.loading  # what is cached in a call is decided by all its images together
        if len(tasks) > 1 and (len(how.components.controls) > 1 or loading.cache or loading.one_by_one):
            return self._one_by_one(tasks, how, should_stop, previews, wants_latents)
        shown = StepPreviews(previews, len(tasks)) if previews else None
        latents = None
        masked = Masked(tasks) if how.components.has_mask else None
        ends_at = loading.guidance_steps - how.refine_from_step if how.guidance > 1 else 0
        if loading.guidance_steps and ends_at <= 0:
            how = how._replace(guidance=0.0)
        self._watch.begin()
        pipeline, begin = self._beginning(tasks, how)
        begin_call(pipeline, loading, how.steps - how.refine_from_step)
        self._watch.loaded()

        def after_step(running: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal latents
            if masked is not None:
                tensors["latents"] = masked.after_step(running, timestep, tensors["latents"])
            if step + 1 == ends_at:
                tensors = end_guidance(running, tensors)
            latents = tensors.get("latents")  # after the last step: what the pipeline decodes
            if should_stop():
                raise Stopped
            if shown is not None:
                shown.after_step(running, step, latents)
            return tensors

        # one generator an image, on the CPU: the same seed starts from the same noise in any batch, on any device
        generators = [torch.Generator("cpu").manual_seed(task.seed) for task in tasks]
        takes = signature_of(pipeline).takes
        arguments = {
            **{name: value for name, value in self._variant.call.items() if name in takes},
            **call_arguments(pipeline, how, after_step, ends_guidance=ends_at > 0),
            **prompts_of(pipeline, tasks, how, encoded),
            **begin,
            **starting_noise(pipeline, begin, generators),
        }
        try:
            with torch.inference_mode():
                images = pipeline(generator=generators, **arguments).images
        except Stopped:
            return None
        check_made(images, latents)
        images = images if masked is None else masked.finish(images)
        times = self._watch.end()
        if self._compilation and self._compilation.take_eager_steps() and not self._is_trying:
            metrics.FALLBACKS.labels("worker", "not-compiled").inc()
        if not wants_latents or self.latent_space is None or latents is None:
            return Generated(images, [None] * len(images), times)
        return Generated(images, [_latent(values, self.latent_space) for values in latents], times)

    def _one_by_one(
        self,
        tasks: Sequence[GenerationTask],
        how: ResolvedOptions,
        should_stop: ShouldStop,
        previews: Previews | None,
        wants_latents: bool,
    ) -> Generated | None:
        """Make a call for each task: pipelines that follow several images take those of one prompt, for example."""
        made = []
        for number, task in enumerate(tasks):
            shown = _of_task(number, previews)
            one = self.generate([task], how, should_stop, previews=shown, wants_latents=wants_latents)
            if one is None:
                return None
            made.append(one)
        times = [one.times for one in made if one.times]
        names = ("load_ms", "encode_ms", "denoise_ms", "decode_ms")
        total = CallTimes(**{name: sum(getattr(each, name) for each in times) for name in names})
        return Generated([one.images[0] for one in made], [one.latents[0] for one in made], total)

    def _beginning(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> tuple[Any, dict[str, Any]]:
        """The pipeline to call, and what it begins with: an empty image of a size, images, drafts, or latents."""
        chosen = how.components
        if self.components is not None and chosen != NOTHING:
            return self.components.prepare(tasks, how)
        if chosen.ids:
            raise EngineFailed(f"variant {self._variant.name!r} has no components: got {chosen.ids}")
        plain = self._plain()
        if chosen.strength is None and not how.refine_from_step:
            return plain, sizes_of(plain, how)
        if self._over_of is not plain:
            self._over, self._over_of = self._watch.watch(image_to_image(plain)), plain
            if self.latent_space:
                take_latents(self._over, self.latent_space.channels)
        if chosen.strength is not None:
            image, strength = [task.image for task in tasks], chosen.strength
        else:
            image, strength = self._starts(tasks, how), strength_of(how.refine_from_step, how.steps)
        return self._over, {**sizes_of(self._over, how), "image": image, "strength": strength}

    def _starts(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> Any:
        """Return the pipeline's argument for images: all the drafts, or all the latents."""
        latents = [task.over for task in tasks if isinstance(task.over, Latent)]
        if not latents:
            return [task.over for task in tasks]
        assert len(latents) == len(tasks), f"{len(latents)} of {len(tasks)} tasks begin with latents, the others not"
        if self.latent_space is None:
            raise CannotRefine(f"{self.kind} cannot begin with a latent")
        for latent in latents:
            self.latent_space.check(latent, how.width, how.height)
        return torch.from_numpy(np.stack([latent.values for latent in latents]))


def _of_task(number: int, previews: Previews | None) -> Previews | None:
    """The previews of one task of several, as of a call of its own."""
    if previews is None or number not in previews.wanted:
        return None
    return Previews({0: previews.wanted[number]}, lambda _task, *seen: previews.show(number, *seen))


def _latent(values: torch.Tensor, space: LatentSpace) -> Latent | None:
    """One image's latent in the precision that it was generated in, or in single precision where numpy has none."""
    single = values if values.dtype == torch.float16 else values.float()
    try:
        return Latent(values=single.cpu().numpy().copy(), autoencoder=space.autoencoder)
    except UnfitLatent as error:
        log.warning("an image was generated from a latent that is not kept: %s", error)
        return None


def _made_with(variant: Variant, pipeline: Any, keeping: Keeping) -> MadeWith:
    """Return what a variant's images are made with. Weights of components are read, and their digests known, later."""
    weights, hub_id = dict[str, str](), ""
    if not variant.components:
        try:
            sources, hub_id = sources_of(variant)
            weights = {name: digest_of(source, keeping.home / "digests.json") for name, source in sources.items()}
        except Exception as error:  # whatever the hub's cache raises: images are made all the same
            log.warning("the digest of %r is not known, and no result will name it: %s", variant.name, error)
    return MadeWith(
        engine=f"diffusers {diffusers.__version__}, torch {torch.__version__}",
        scheduler=type(pipeline.scheduler).__name__ if hasattr(pipeline, "scheduler") else "",
        model=hub_id,
        weights=weights,
        device=device_of(variant.loading).partition(":")[0],
        dtype=str(pipeline.dtype).removeprefix("torch."),
    )


def _base_of(variant: Variant, source: str, parts: Mapping[str, Any]) -> Any:
    """The pipeline of a base, with the variant's scheduler, device and precision."""
    pipeline = load_pipeline(replace(variant, model=source), parts)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def load(variant: Variant, threads: int, keeping: Keeping | None = None) -> DiffusersEngine:
    """Load the variant's pipeline; `keeping`: where its components lie, None for the defaults.

    Raises:
        EngineFailed: the model, its other weights or the device is missing, or it is not a diffusers model.
    """
    with _LOADING:
        return _load(variant, threads, keeping)


def _load(variant: Variant, threads: int, keeping: Keeping | None) -> DiffusersEngine:
    torch.set_num_threads(threads)
    diffusers_logging.set_verbosity_error()  # the tiny autoencoder is reported as unexpected at every load
    for libraries in (diffusers_logging, transformers_logging):
        libraries.disable_progress_bar()  # their bars would stand between the lines of the log
    try:
        if variant.loading.device.startswith("cuda:") and torch.cuda.is_available():
            torch.cuda.set_device(variant.loading.device)  # for libraries that name none; in this thread
        pipeline = None if variant.components else load_pipeline(variant)
    except EngineFailed:
        raise
    except Exception as error:  # whatever a broken or missing model leads the libraries to
        raise EngineFailed(f"variant {variant.name!r}: cannot load {variant.model!r}: {error}") from error
    if pipeline is not None:
        pipeline.set_progress_bar_config(disable=True)
    if variant.steps > 1:
        auto_image_to_image()  # now, and not within the first job that refines a draft
    engine = DiffusersEngine(pipeline, variant, keeping)
    engine.compile()
    engine.try_claims()
    if engine.latent_space is None:
        log.info("variant %r gives and takes no latents: %s", variant.name, engine.kind)
    return engine
