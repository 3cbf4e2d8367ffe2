"""The one training loop: step, report, checkpoint; starts where the last checkpoint ended."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from accelerate import PartialState
from accelerate.checkpointing import load_accelerator_state, save_accelerator_state
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SAVE_EVERY_S: Final = 60.0
_LOG_EVERY_S: Final = 5.0  # without a terminal there is no bar, so a line now and then
_scale = 1.0  # of this process, which trains one thing and ends


class Stateful(Protocol):
    """Parts of a checkpoint: modules, their averages and optimizers."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...


def device() -> torch.device:
    """CUDA where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def mixed_precision() -> torch.autocast:
    """A context that computes in bf16 where the device has instructions for it, and in fp32 elsewhere.

    On a CPU with AVX2 alone bf16 is emulated: a 3 x 3 convolution took 23 times as long as in fp32.
    """
    where = device()
    if where.type == "cuda":
        quick = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        quick = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return torch.autocast(where.type, torch.bfloat16, enabled=quick)


def set_scale(scale: float) -> None:
    """From now on train for this share of all steps and images: a quick look at whether everything runs."""
    global _scale
    if not 0 < scale <= 1:
        raise ValueError(f"scale must be above 0 and at most 1: got {scale}")
    _scale = scale


def scaled(count: int, least: int = 2) -> int:
    """Return the number of images, prompts or repeats on this scale of training; the loop scales its steps itself."""
    return max(min(count, least), round(count * _scale))


def rate(step: int, steps: int, warm_up: int = 100, flat: float = 0.4, last: float = 0.02) -> float:
    """Factor on the learning rate: warm-up, flat, then linear down to `last`."""
    steps, warm_up = scaled(steps), scaled(warm_up)
    if step < warm_up:
        return (step + 1) / warm_up
    done = step / steps
    return 1.0 if done < flat else max(last, 1 - (1 - last) * (done - flat) / (1 - flat))


def set_rate(optimizer: torch.optim.Optimizer, base: float, factor: float) -> None:
    """Give every parameter group the rate base x factor."""
    for group in optimizer.param_groups:
        group["lr"] = base * factor


def descend(
    loss: torch.Tensor, optimizer: torch.optim.Optimizer, clip: Iterable[torch.nn.Parameter] | None = None
) -> torch.Tensor:
    """One step of the optimizer down the loss, which is returned; gradients of `clip` are cut to a norm of 1."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(clip, 1.0)
    optimizer.step()
    return loss


@dataclass(kw_only=True)
class Loop:
    """Run `step(index) -> loss` until `steps`; checkpoints and a JSON of what was measured lie in `folder`."""

    name: str
    folder: Path
    steps: int
    parts: Mapping[str, Stateful]
    batch: int
    console: Console = field(default_factory=Console)
    done: int = field(default=0, init=False)  # steps
    seconds: float = field(default=0.0, init=False)  # that they took, in all processes

    def __post_init__(self) -> None:
        self.steps = scaled(self.steps)
        self._modules = [part for part in self.parts.values() if isinstance(part, torch.nn.Module)]
        self._others = [*(part for part in self.parts.values() if not isinstance(part, torch.nn.Module)), self]
        PartialState(cpu=device().type == "cpu")  # accelerate saves and loads by this: one process, on our device

    def run(self, step: Callable[[int], torch.Tensor]) -> None:
        """Train; `step` draws its data from (seed, index) alone, so that a resumed run sees what the first would."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._resume()
        first, before = self.done, self.seconds
        if first >= self.steps:
            return
        began = saved = logged = time.monotonic()
        mean = torch.zeros(())
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(self.name, total=self.steps, completed=first)
            for index in range(first, self.steps):
                loss = step(index).detach().float().cpu()
                mean = loss if index == first else mean.lerp(loss, 0.02)
                now = time.monotonic()
                self.done, self.seconds = index + 1, before + now - began
                speed = (self.done - first) * self.batch / (now - began)
                bar.update(task, advance=1, description=f"{self.name} loss {mean:.4f} {speed:.0f}/s")
                is_last = self.done == self.steps
                if not self.console.is_terminal and (is_last or now - logged > _LOG_EVERY_S):
                    logged = now
                    print(f"{self.name} {self.done}/{self.steps} loss {mean:.4f} {speed:.0f}/s", flush=True)
                if not is_last and now - saved > _SAVE_EVERY_S:
                    saved = now
                    self._save()
        self.note(
            steps=self.steps,
            samples=self.steps * self.batch,
            seconds=round(self.seconds),
            loss=round(float(mean), 4),
            device=device().type,
        )
        self._save()

    def note(self, **facts: object) -> None:
        """Add measured figures to `<folder>/<name>.json`, from where the model cards take them."""
        path = self.folder / f"{self.name}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | facts, indent=2) + "\n")

    @staticmethod
    def size(module: torch.nn.Module) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in module.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Steps and seconds so far."""
        return {"done": self.done, "seconds": self.seconds}

    def load_state_dict(self, state_dict: Any) -> None:
        """Take over the steps and seconds of a checkpoint."""
        self.done, self.seconds = state_dict["done"], state_dict["seconds"]

    @property
    def _checkpoints(self) -> Path:
        return self.folder / f"{self.name}.checkpoint"

    def _resume(self) -> None:
        if self._checkpoints.is_file():
            self.console.print(f"{self.name}: beginning anew: its checkpoint has an older format")
            self._checkpoints.unlink()
        if saved := sorted(self._checkpoints.glob("[0-9]*")):
            load_accelerator_state(str(saved[-1]), self._modules, self._others, [], [], 0, map_location="on_device")
            self.console.print(f"{self.name}: going on from step {self.done} of {self.steps}")

    def _save(self) -> None:
        """Write parts, progress and random number generators into a new folder, and remove the last one after that.

        A kill at any time leaves one of them whole.
        """
        partial, whole = self._checkpoints / "partial", self._checkpoints / f"{self.done:08}"
        partial.mkdir(parents=True, exist_ok=True)
        weights = [module.state_dict() for module in self._modules]
        save_accelerator_state(str(partial), weights, self._others, [], [], 0, self.done)
        partial.rename(whole)
        for other in self._checkpoints.iterdir():
            if other != whole:
                shutil.rmtree(other)
