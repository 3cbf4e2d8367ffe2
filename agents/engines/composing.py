"""The components of a variant on the device: bases, adapters, controls, and the calls that are made with them.

Which of them are there, and which leave, is decided by the store (`agents/components/store.py`); here they are built,
fused and put together. What is loaded is held against the digest that the catalog has of it: other bytes generate
nothing.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import psutil
import torch

from agents.components.building import built, parts_of
from agents.components.host import HostWeights
from agents.components.opening import Keeping, device_budget, open_components, with_own_base
from agents.components.store import ComponentStore, Prefetched
from agents.components.weight_files import ComponentFailed
from agents.engines import CannotGenerate, CannotRefine, EngineFailed, GenerationTask, model_source
from agents.engines.families import denoiser_name, sizes_of
from agents.engines.low_rank import FIELD, NOTE, Applied, Combination, FusedWeights, Layers, networks_of, read_adapter
from agents.engines.masking import check_masked
from agents.engines.pipelines import device_of, placed
from planner.catalog.components import Selection
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions
from planner.components.component import (
    Component,
    Kind,
    Tier,
    base_of,
    component_id,
    fused_id,
    kind_of,
    name_of,
    weights_of,
)
from schemas.errors import PochadeError
from streams.weights.memory import Memory, cuda_memory

TEXT, IMAGE = "AutoPipelineForText2Image", "AutoPipelineForImage2Image"
NETWORKS: Final[Mapping[str, Any]] = {}  # of a base that a library reads by itself


class LoadBase(Protocol):
    """Loads a base."""

    def __call__(self, source: str, parts: Mapping[str, Any]) -> Any:
        """Return the pipeline of a folder or hub id on its device; `parts`: networks that are there already."""


class _Base:
    """A base that is resident, with its fused combinations and the pipelines that share its parts."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.weights = FusedWeights(networks_of(pipeline))
        self.others: dict[tuple[str, tuple[str, ...]], Any] = {}  # kind, controls -> pipeline


class Resident:
    """The parts on the device, by component: the store says what comes and goes, a call reads."""

    def __init__(self, variant: Variant, load_base: LoadBase, watch: Callable[[Any], Any]) -> None:
        self._variant, self._load_base, self._watch = variant, load_base, watch
        self.bases: dict[str, _Base] = {}  # by id, as all of these
        self.adapters: dict[str, Layers] = {}
        self.controls: dict[str, Any] = {}

    def resident_ids(self) -> frozenset[str]:
        fused = [_id_of(base, each) for base, held in tuple(self.bases.items()) for each in held.weights.combinations]
        return frozenset([*self.bases, *self.adapters, *self.controls, *fused])

    def put(self, id_: str, host: HostWeights | None) -> None:
        kind, name = kind_of(id_), name_of(id_)
        source = model_source(self._variant.offer.of_kind(kind)[name].source)
        try:
            if kind is Kind.BASE:
                self.bases[id_] = _Base(self._watch(self._base(source, host)))
            elif kind is Kind.ADAPTER:
                self.adapters[id_] = self._adapter(id_, source, host)
            else:
                self.controls[id_] = self._control(source, host)
        except PochadeError as error:
            raise ComponentFailed(str(error)) from error
        except Exception as error:  # whatever a broken or missing model leads the libraries to
            raise ComponentFailed(f"{kind} {name!r} cannot be loaded from {source!r}: {error}") from error

    def drop(self, id_: str) -> None:
        kind = kind_of(id_)
        if kind is Kind.FUSED:
            base = self.bases.get(base_of(id_) or "")
            if base is not None:
                base.weights.forget(_combination_of(id_))
        elif kind is Kind.BASE:
            self.bases.pop(id_, None)
        elif kind is Kind.ADAPTER:
            self.adapters.pop(id_, None)
        else:
            self.controls.pop(id_, None)
            for base in self.bases.values():
                base.others = {key: made for key, made in base.others.items() if id_ not in key[1]}

    def _base(self, source: str, host: HostWeights | None) -> Any:
        if host is None:
            return self._load_base(source, NETWORKS)
        loading = self._variant.loading
        besides = tuple(loading.weights)
        device, dtype = placed(loading, source)
        parts = parts_of(host, dtype, loading.files, besides, device)
        if {path.partition("/")[0] for path in host.paths if "/" in path} <= {*parts, *besides}:
            return self._load_base(str(host.folder), parts)
        with host.whole_folder() as folder:
            return self._load_base(str(folder), parts)

    def _adapter(self, id_: str, source: str, host: HostWeights | None) -> Layers:
        base = next(iter(self.bases.values()), None)
        if base is None:
            raise ComponentFailed(f"{id_} is read in the format of a base, and none is resident: load one first")
        try:
            if host is None:
                return read_adapter(source, base.pipeline)
            tensors = {key: value.clone() for path in host.paths for key, value in host.tensors(path).items()}
            notes = [note for path in host.paths if (note := host.metadata(path).get(NOTE))]
            return read_adapter(tensors, base.pipeline, source, *notes[:1])
        except (CannotGenerate, OSError, MemoryError):
            raise
        except Exception as error:  # whatever a broken file leads the libraries to
            raise CannotGenerate(f"adapter {source!r} cannot be read: {error}", FIELD) from error

    def _control(self, source: str, host: HostWeights | None) -> Any:
        from diffusers import ControlNetModel

        base = next(iter(self.bases.values()), None)
        if base is None:
            raise ComponentFailed(f"control from {source!r} takes device and precision of a base, and none is resident")
        pipeline = base.pipeline
        if host is None:
            net = ControlNetModel.from_pretrained(source, torch_dtype=pipeline.dtype, use_safetensors=True)
        else:
            net = built(ControlNetModel, host, host.folder, host.paths, pipeline.dtype, pipeline.device)
        return _laid_out(net.to(pipeline.device))


class Prepared(NamedTuple):
    """The pipeline and arguments of a call."""

    pipeline: Any
    arguments: dict[str, Any]


class Components:
    """The components of one variant, for one thread: `store` may be asked from any."""

    def __init__(
        self,
        variant: Variant,
        load_base: LoadBase,
        watch: Callable[[Any], Any] = lambda pipeline: pipeline,
        keeping: Keeping | None = None,
    ) -> None:
        """`load_base`: onto its device. `watch`: is shown each pipeline. `keeping`: None for the defaults.

        Raises EngineFailed where the store cannot be opened.
        """
        self._variant, self._watch = with_own_base(variant), watch
        self.own_id = component_id(Kind.BASE, self._variant.bases[0])  # of the default base
        device = device_of(variant.loading)
        keeping, free = keeping or Keeping(), free_bytes(device)
        self._parts = Resident(self._variant, load_base, watch)
        try:
            self.store: ComponentStore = open_components(
                self._variant, model_source, self._parts, keeping, free_bytes=free, memory=_pinned(device)
            )  # fmt: skip
            if self.store.load_ahead(self.own_id, Tier.DEVICE) is not Prefetched.LOADED:
                raise ComponentFailed(f"{self.own_id} does not fit the device: raise worker.components.device_bytes")
            self._ratio = bytes_of(self.opened()) / self.store.resident_bytes(
                Tier.DEVICE
            )  # 2 of half precision in single
            self.store.resize_device(device_budget(self._variant, keeping, free, self._ratio))
        except (PochadeError, OSError) as error:
            raise EngineFailed(f"components of {variant.name} cannot be kept: {error}") from error

    def opened(self) -> Any:
        """Return the pipeline of the default base as it was loaded when this was made, before any call."""
        return self._parts.bases[self.own_id].pipeline

    def pipeline(self, base: str = "") -> Any:
        """Return the pipeline of a base without adapters, loaded if need be; "": of the default one."""
        id_ = component_id(Kind.BASE, base or self._variant.bases[0])
        self._bring([id_])
        self._parts.bases[id_].weights.apply(())
        return self._parts.bases[id_].pipeline

    def prepare(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> Prepared:
        """Load what a call needs and is not there, fuse its adapters, and return the pipeline and its arguments.

        Raises:
            CannotGenerate: an adapter cannot be read, or is of another base.
            EngineFailed: a component is missing, damaged, or has no room.
            CannotRefine: diffusers has no pipeline for this model that begins so.
        """
        chosen = how.components
        base_id = component_id(Kind.BASE, chosen.base or self._variant.bases[0])
        controls = [component_id(Kind.CONTROL, each.name) for each in chosen.controls]
        weights = {component_id(Kind.ADAPTER, each.name): each.weight for each in chosen.adapters}
        fused = fused_id(base_id, weights) if weights else ""
        if not weights:
            self._bring([base_id, *controls])
        elif fused in self.store.resident_ids(Tier.DEVICE):
            self._bring([base_id, fused, *controls])
        else:
            self._bring([base_id, *weights, *controls])
            self._fuse(fused, base_id, controls)
        base = self._parts.bases[base_id]
        base.weights.apply(_combination_of(fused) if fused else ())
        pipeline = self._pipeline(base, chosen)
        return Prepared(pipeline, _arguments(pipeline, tasks, how))

    def _bring(self, ids: Sequence[str]) -> None:
        try:
            self.store.bring(ids)
        except ComponentFailed as error:
            if isinstance(error.__cause__, CannotGenerate):
                raise error.__cause__ from error
            raise EngineFailed(str(error)) from error

    def _fuse(self, id_: str, base_id: str, controls: Sequence[str]) -> None:
        """Fuse a combination from parts that are on the device; its adapters may leave for it where room is short."""
        fusing, weights = self._parts.bases[base_id].weights, weights_of(id_)
        adapters = [Applied(name_of(each), weights[each], self._parts.adapters[each]) for each in weights]
        component = Component(id=id_, bytes=math.ceil(fusing.bytes_of(adapters) / self._ratio), load_ms={})
        try:
            self.store.add_fused(component, (base_id, *controls), prefer=tuple(weights))
        except ComponentFailed as error:
            raise EngineFailed(str(error)) from error
        began_s = time.monotonic()
        try:
            fusing.fuse(adapters)
        finally:
            self.store.was_fused(id_, 1000 * (time.monotonic() - began_s))

    def _pipeline(self, base: _Base, chosen: Selection) -> Any:
        kind = TEXT if chosen.strength is None else IMAGE
        if chosen.has_mask:
            check_masked(base.pipeline)
        ids = tuple(component_id(Kind.CONTROL, each.name) for each in chosen.controls)
        if kind == TEXT and not ids:
            return base.pipeline
        if (kind, ids) not in base.others:
            nets = [self._parts.controls[each] for each in ids]
            more = {"controlnet": nets[0] if len(nets) == 1 else nets} if nets else {}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    import diffusers

                    made = getattr(diffusers, kind).from_pipe(base.pipeline, **more)
            except ValueError as error:  # no such pipeline for this kind of model
                raise CannotRefine(f"{type(base.pipeline).__name__} has no {kind}: {error}") from error
            made.set_progress_bar_config(disable=True)
            base.others[kind, ids] = self._watch(made)
        return base.others[kind, ids]


def check_offered(variant: Variant, pipeline: Any) -> None:
    """Raise EngineFailed for what a catalog offers and diffusers has not for this kind of pipeline."""
    where, kind = f"variant {variant.name!r}:", type(pipeline).__name__
    if variant.adapters and not hasattr(pipeline, "lora_state_dict"):
        raise EngineFailed(f"{where} has adapters, but diffusers applies none to {kind}: remove `adapters`")
    if variant.controls and denoiser_name(pipeline) != "unet":
        raise EngineFailed(f"{where} has controls, but {kind} has no UNet to follow them: remove `controls`")
    if "mask" in variant.honours:
        try:
            check_masked(pipeline)
        except CannotRefine as error:
            raise EngineFailed(f"{where} honours mask, but {error}: remove it from `honours`") from error


def _combination_of(id_: str) -> Combination:
    """The adapters of a fused component, by name, with their weights."""
    return tuple((name_of(adapter), weight) for adapter, weight in weights_of(id_).items())


def _id_of(base_id: str, known: Combination) -> str:
    return fused_id(base_id, {component_id(Kind.ADAPTER, name): weight for name, weight in known})


def _arguments(pipeline: Any, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> dict[str, Any]:
    """Return the pipeline's arguments beside prompts and steps. Images have the generated size."""
    chosen = how.components
    arguments: dict[str, Any] = sizes_of(pipeline, how)
    if chosen.strength is not None:
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


def _pinned(device: str) -> Memory | None:
    return cuda_memory(device) if torch.device(device).type == "cuda" else None


def free_bytes(device: str) -> int:
    """Memory of a device that is free now: of a CUDA device its own, else of this machine."""
    is_cuda = torch.device(device).type == "cuda"
    return int(torch.cuda.mem_get_info(device)[0]) if is_cuda else int(psutil.virtual_memory().available)
