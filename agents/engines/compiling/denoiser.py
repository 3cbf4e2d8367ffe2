"""Runs the denoiser of pipelines as compiled code where its inputs are those that were compiled for, else eagerly.

No call of a request compiles: once the warm-up is over, inputs of another kind (another size, a ControlNet's residuals)
run eagerly, and are counted.
"""

import functools
import inspect
import logging
import weakref
from typing import Any, Final

import torch

log = logging.getLogger(__name__)

PARTS: Final = ("unet", "transformer")  # names of a pipeline's denoiser
MAX_KINDS: Final = 1000  # of inputs that are remembered as not compiled for
Kind = tuple[Any, ...]


def denoiser_of(pipeline: Any) -> torch.nn.Module | None:
    """Return the network that a pipeline calls in each step; None for a kind of pipeline that has none."""
    found = (getattr(pipeline, name, None) for name in PARTS)
    return next((each for each in found if isinstance(each, torch.nn.Module)), None)


class CompiledDenoiser:
    """The compiled forward function of one class of networks, for all networks of an engine. For one thread."""

    def __init__(self, kind: type[torch.nn.Module]) -> None:
        self._forward = kind.forward
        # The network is an argument: one of the same architecture, with other weights, runs the same code.
        self._compiled: Any = torch.compile(self._forward, **_apart())
        self._is_warming, self._is_off = False, False
        self._unserved: set[Kind] = set()
        self.eager_steps = 0  # of networks that are attached, since the warm-up

    def attach(self, network: torch.nn.Module) -> None:
        """Make calls of a network run compiled code from now on. The network can still be freed: it is held weakly."""
        if "forward" in vars(network):  # pipelines share it
            return
        of = weakref.ref(network)

        @functools.wraps(self._forward)
        def forward(*args: Any, **more: Any) -> Any:
            return self._call(of(), *args, **more)

        # pipelines ask which arguments the network takes
        forward.__signature__ = inspect.signature(network.forward)  # type: ignore[attr-defined]
        network.forward = forward

    def warm(self, *, is_warming: bool) -> None:
        """Compile for whatever comes, from now on or no more."""
        self._is_warming = is_warming

    def turn_off(self) -> None:
        """Run everything eagerly from now on."""
        self._is_off = True

    def _call(self, network: Any, *args: Any, **more: Any) -> Any:
        if self._is_off:
            return self._forward(network, *args, **more)
        laid_out = tuple(_laid_out(each) for each in args)
        if self._is_warming:
            _mark_batches((laid_out, more))
            return self._compiled(network, *laid_out, **more)
        kind = _kind_of(args, more)
        if kind not in self._unserved:
            try:
                with torch.compiler.set_stance("fail_on_recompile"):
                    return self._compiled(network, *laid_out, **more)
            except Exception as error:  # of inputs that are wrong in any case, too: then the eager call says so
                if len(self._unserved) >= MAX_KINDS:
                    self._unserved.clear()
                self._unserved.add(kind)
                log.warning("no compiled code for a denoiser's inputs, which run eagerly: %s", str(error)[:500])
        self.eager_steps += 1
        return self._forward(network, *args, **more)


def _apart() -> dict[str, Any]:
    """What keeps the code of several engines apart, each with its own number of graphs; older releases of torch know
    no such option, and count the graphs of a class of networks together.
    """
    return {"isolate_recompiles": True} if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}


def _laid_out(value: Any) -> Any:
    """A copy of a latent in the one layout that was compiled for: noise and a scheduler's results differ in theirs.

    A copy, as the strides of a batch of one may be any, and the compiler looks at them.
    """
    if not isinstance(value, torch.Tensor) or value.dim() != 4:
        return value
    layout = torch.channels_last if value.device.type == "cpu" else torch.contiguous_format
    return torch.empty_like(value, memory_format=layout).copy_(value)


def _mark_batches(value: Any) -> None:
    """Have the compiler make code for any number of rows of a batch, not for this one; a single row stays apart."""
    if isinstance(value, torch.Tensor):
        if value.dim() and len(value) > 1:
            torch._dynamo.maybe_mark_dynamic(value, 0)
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            _mark_batches(each)


def _kind_of(args: tuple[Any, ...], more: dict[str, Any]) -> Kind:
    """Return the kind of a function's inputs: shapes, precisions, and which are given."""
    return (*map(_alike, args), *((name, _alike(value)) for name, value in sorted(more.items())))


def _alike(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, list | tuple):
        return tuple(_alike(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, _alike(each)) for name, each in sorted(value.items()))
    return value if isinstance(value, bool | int | str | None) else type(value)
