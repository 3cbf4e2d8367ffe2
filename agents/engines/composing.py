"""The components of a variant in one worker: bases, adapters and controls, loaded when first needed and kept resident.

Bases and fused combinations that do not fit the memory leave, the least recently used first. What is loaded is held
against the digest that the catalog has of it: other bytes generate nothing.
"""

import pathlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import psutil
import torch

from agents.engines import CannotRefine, EngineFailed, GenerationTask, model_source
from agents.engines.low_rank import Applied, FusedWeights, Layers, read_adapter
from agents.engines.masking import check_masked
from agents.engines.weight_files import digest_of_files
from planner.catalog.components import ADAPTER, CONTROL, Component, Selection
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions

SHARE: Final = 0.5  # of the memory that is free when a variant is loaded, for its components
TEXT, IMAGE = "AutoPipelineForText2Image", "AutoPipelineForImage2Image"


class _Base:
    """A base that is resident, with its fused combinations and the pipelines that share its parts."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.weights = FusedWeights(pipeline.unet)
        self.others: dict[tuple[str, tuple[str, ...]], Any] = {}
        self.own_bytes = bytes_of(pipeline)

    @property
    def bytes(self) -> int:
        return self.own_bytes + self.weights.bytes


class Prepared(NamedTuple):
    """What a call is made with."""

    pipeline: Any
    arguments: dict[str, Any]


class Components:
    """The components of one variant. For one thread."""

    def __init__(
        self,
        variant: Variant,
        load_base: Callable[[str], Any],
        watch: Callable[[Any], Any] = lambda pipeline: pipeline,
        max_bytes: float | None = None,
    ) -> None:
        """`load_base`: source -> its pipeline, on its device. `watch`: is shown each pipeline.

        `max_bytes`: that they may hold together; None: SHARE of what is free now.
        """
        self._variant, self._load_base, self._watch = variant, load_base, watch
        self._bases: OrderedDict[str, _Base] = OrderedDict()  # the least recently used first
        self._adapters: dict[tuple[str, str], Layers] = {}  # (base, adapter)
        self._controls: dict[str, Any] = {}
        self._max_bytes = free_bytes() * SHARE if max_bytes is None else max_bytes

    @property
    def resident(self) -> tuple[str, ...]:
        """Ids of what is loaded, bases first."""
        adapters = sorted({f"{ADAPTER}:{name}" for _, name in self._adapters})
        return (*(f"base:{name}" for name in self._bases), *adapters, *(f"{CONTROL}:{each}" for each in self._controls))

    @property
    def bytes(self) -> int:
        """The bytes of all bases and fused combinations that are resident."""
        return sum(base.bytes for base in self._bases.values())

    def adopt(self, name: str, pipeline: Any) -> None:
        """Take a base that is loaded already."""
        self._bases[name] = _Base(pipeline)

    def weights_of(self, base: str) -> FusedWeights:
        """Return the weights of a base, which is loaded if it is not resident."""
        return self._base(base).weights

    def prepare(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> Prepared:
        """Load what a call needs and is not there, fuse its adapters, and return the pipeline and its arguments.

        Raises:
            EngineFailed: a component is missing, damaged or of another base.
            CannotRefine: diffusers has no pipeline for this model that begins so.
        """
        chosen = how.components
        base = self._base(chosen.base)
        adapters = [Applied(each.name, each.weight, self._layers(base, chosen.base, each.name))
                    for each in chosen.adapters]  # fmt: skip
        base.weights.apply(adapters)
        pipeline = self._pipeline(base, chosen)
        self._make_room(chosen.base)
        return Prepared(pipeline, _arguments(tasks, how))

    def _base(self, name: str) -> _Base:
        if name not in self._bases:
            self._make_room("", self._variant.base(name).bytes if name else 0)
            source = checked_source(self._variant.base(name)) if name else model_source(self._variant.model)
            try:
                self._bases[name] = _Base(self._watch(self._load_base(source)))
            except EngineFailed:
                raise
            except Exception as error:  # whatever a broken or missing model leads the libraries to
                raise EngineFailed(f"base {name!r} of {self._variant.name}: cannot load {source!r}: {error}") from error
        self._bases.move_to_end(name)
        return self._bases[name]

    def _make_room(self, kept: str, wanted: int = 0) -> None:
        """Let go what is beyond the budget: fused combinations of all bases first, then whole bases."""
        for base in self._bases.values():
            over = self.bytes + wanted - self._max_bytes
            if over > 0:
                base.weights.shrink(max(0.0, base.weights.bytes - over))
        for name in list(self._bases):
            if self.bytes + wanted > self._max_bytes and name != kept:
                del self._bases[name]
                self._adapters = {key: layers for key, layers in self._adapters.items() if key[0] != name}

    def _layers(self, base: _Base, base_name: str, name: str) -> Layers:
        key = base_name, name
        if key not in self._adapters:
            source = checked_source(self._component(ADAPTER, name))
            try:
                self._adapters[key] = read_adapter(source, type(base.pipeline), base.pipeline.unet)
            except EngineFailed:
                raise
            except Exception as error:  # whatever broken files lead the libraries to
                raise EngineFailed(f"adapter {name!r} cannot be read from {source!r}: {error}") from error
        return self._adapters[key]

    def _control(self, base: _Base, name: str) -> Any:
        if name not in self._controls:
            from diffusers import ControlNetModel

            source = checked_source(self._component(CONTROL, name))
            try:
                net = ControlNetModel.from_pretrained(source, torch_dtype=base.pipeline.dtype, use_safetensors=True)
                self._controls[name] = _laid_out(net.to(base.pipeline.device))
            except Exception as error:  # whatever a broken or missing model leads the libraries to
                raise EngineFailed(f"control {name!r} cannot be loaded from {source!r}: {error}") from error
        return self._controls[name]

    def _pipeline(self, base: _Base, chosen: Selection) -> Any:
        kind = TEXT if chosen.strength is None else IMAGE
        if chosen.has_mask:
            check_masked(base.pipeline)
        names = tuple(each.name for each in chosen.controls)
        if kind == TEXT and not names:
            return base.pipeline
        if (kind, names) not in base.others:
            nets = [self._control(base, name) for name in names]
            more = {"controlnet": nets[0] if len(nets) == 1 else nets} if nets else {}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    import diffusers

                    made = getattr(diffusers, kind).from_pipe(base.pipeline, **more)
            except ValueError as error:  # no such pipeline for this kind of model
                raise CannotRefine(f"{type(base.pipeline).__name__} has no {kind}: {error}") from error
            made.set_progress_bar_config(disable=True)
            base.others[kind, names] = self._watch(made)
        return base.others[kind, names]

    def _component(self, kind: str, name: str) -> Component:
        return self._variant.offer.of_kind(kind)[name]


def checked_source(component: Component) -> str:
    """Return where a component lies, once its bytes are those that the catalog knows. Raises EngineFailed."""
    source = model_source(component.source)
    path = pathlib.Path(source)
    if component.sha256 and path.exists():
        found, _ = digest_of_files(path)
        if found != component.sha256:
            raise EngineFailed(
                f"{component.id} at {source} is damaged or another: its sha256 is {found}, the catalog's "
                f"{component.sha256}; restore it, or correct the catalog"
            )
    return source


def _arguments(tasks: Sequence[GenerationTask], how: ResolvedOptions) -> dict[str, Any]:
    """What the pipeline takes beside prompts and steps. An image has the size that is generated."""
    chosen = how.components
    arguments: dict[str, Any] = {}
    if chosen.strength is None:
        arguments |= {"width": how.width, "height": how.height}
    else:
        arguments |= {"image": [task.image for task in tasks], "strength": chosen.strength}
    if chosen.controls:
        weights = [each.weight for each in chosen.controls]
        images = [task.controls[0] for task in tasks] if len(weights) == 1 else list(tasks[0].controls)
        arguments["image" if chosen.strength is None else "control_image"] = images
        arguments["controlnet_conditioning_scale"] = weights[0] if len(weights) == 1 else weights
    return arguments


def _laid_out(network: Any) -> Any:
    """In the layout in memory that is fastest on a CPU, as the parts of a pipeline are."""
    is_cpu = network.device.type == "cpu" and all(weights.dim() < 5 for weights in network.parameters())
    return network.to(memory_format=torch.channels_last) if is_cpu else network


def bytes_of(pipeline: Any) -> int:
    """Return the bytes of the weights of all parts of a pipeline."""
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    return sum(weights.numel() * weights.element_size() for part in parts for weights in part.parameters())


def free_bytes() -> int:
    """Memory of the device that is free now: of the CUDA device where there is one, else of this machine."""
    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else int(psutil.virtual_memory().available)
