"""Generates the images of orders in parts: by several processes, stored in a folder, with a bar of the time left."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from agents.components.opening import Keeping
from agents.profiling.generation.orders import GeneratedImages, Order, batch_of, generate_into, joined
from planner.catalog.entries import Variant, run_ms
from schemas.errors import PochadeError
from streams.observing.cards import AS_NVML, ORDER, VISIBLE

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

Result = TypeVar("Result")

_PART = 64  # images in one part at most: what an interruption loses
_PART_BYTES = 64 << 20
_JUDGE_MS = 15.0  # an image


def progress_bar() -> Progress:
    """Return a bar on stderr: the share done, and the time left, by predicted work."""
    return Progress(
        TextColumn("[progress.description]{task.description}"), BarColumn(), TaskProgressColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True),
    )  # fmt: skip


def work_ms(variant: Variant, count: int, begin: int = 0) -> float:
    """Return the predicted ms in which one process generates and judges `count` images."""
    batch = batch_of(variant)
    return count * (run_ms(variant, batch, begin) / batch + _JUDGE_MS)


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    order: Order
    file: Path

    @property
    def work_ms(self) -> float:
        return work_ms(self.order.variant, len(self.order.prompts), self.order.begin)


class GenerationPool:
    """A folder of generated parts, and the processes that add to it. Equal orders are generated once."""

    def __init__(
        self, folder: Path, *, jobs: int = 1, threads: int = 1, keeping: Keeping | None = None,
        devices: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """`keeping`: where engines have their volume; None for the defaults. `devices`: cards, a process each."""
        self._folder, self.threads, self.keeping = folder, threads, keeping
        self._jobs, self._devices = len(devices) or jobs, devices
        self._done_ms = 0.0

    def generate(self, orders: Mapping[str, Order], later_ms: float = 0.0) -> dict[str, GeneratedImages]:
        """Every order, by its name. `later_ms` of `work_ms` will be asked for after this, which the bar counts in.

        Raises:
            EngineFailed, CannotRefine: as `orders.generate_into`; what was generated before stays.
            PochadeError: a process died.
        """
        parts = [self._part(name, part) for name, order in orders.items() for part in _split(order)]
        self._folder.mkdir(parents=True, exist_ok=True)
        todo = sorted((part for part in parts if not part.file.exists()), key=_place)
        asked_ms = sum(part.work_ms for part in parts)
        kept_ms = asked_ms - sum(part.work_ms for part in todo)
        with progress_bar() as bar:
            total = self._done_ms + asked_ms + later_ms
            task = bar.add_task("generating", total=total)
            bar.advance(task, self._done_ms + kept_ms)
            for part in self._generated(todo):
                bar.update(task, description=f"generated {part.name}", advance=part.work_ms)
        self._done_ms += asked_ms
        return {
            name: joined([GeneratedImages.load(part.file) for part in parts if part.name == name]) for name in orders
        }

    def _part(self, name: str, order: Order) -> _Part:
        words = "".join(c if c.isalnum() else "-" for c in name)
        return _Part(name, order, self._folder / f"{words}-{order.digest()}.npz")

    def _generated(self, todo: list[_Part]) -> Iterator[_Part]:
        """Each part when it is done."""
        if not self._devices and (self._jobs == 1 or len(todo) < 2):
            for part in todo:
                generate_into(part.order, part.file, self.keeping)
                yield part
            return
        with pinned_pool(self._devices, self._jobs) as pool:
            begun: dict[Future[None], _Part] = {
                pool.submit(generate_into, part.order, part.file, self.keeping): part for part in todo
            }
            try:
                for future in as_completed(begun):
                    future.result()
                    yield begun[future]
            except BrokenProcessPool as error:
                raise PochadeError(
                    "a process that generates images died, maybe of too little memory: try --jobs 1"
                ) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def in_a_process(self, function: Callable[..., Result], /, *asked: Any, **more: Any) -> Result:
        """Return a function's result: computed on the first card in a process of its own, else here."""
        if not self._devices:
            return function(*asked, **more)
        with pinned_pool(self._devices[:1]) as pool:
            return pool.submit(function, *asked, **more).result()


def pinned_pool(devices: Sequence[int], jobs: int = 1) -> ProcessPoolExecutor:
    """New processes, one for each card, which sees that one alone; `jobs` that choose for themselves if there is none.

    They are as many as there is work for.
    """
    context = multiprocessing.get_context("spawn")
    if not devices:
        return ProcessPoolExecutor(jobs, mp_context=context)
    left = context.SimpleQueue()
    for device in devices:
        left.put(device)
    return ProcessPoolExecutor(len(devices), mp_context=context, initializer=_take_one, initargs=(left,))


def _take_one(left: "SimpleQueue[int]") -> None:
    os.environ.update({VISIBLE: str(left.get()), ORDER: AS_NVML})  # CUDA begins with the first model


def _split(order: Order) -> Iterator[Order]:
    """As many whole calls as an interruption and the memory allow."""
    most = min(_PART, _PART_BYTES // (order.variant.width * order.variant.height * 3))
    return order.split(max(1, most // order.batch) * order.batch)


def _place(part: _Part) -> tuple[float, str, int]:
    """The slow ones first, so that the processes end together; those of one model in a row, to load it once."""
    variant = part.order.variant
    return -run_ms(variant, 1), variant.name, part.order.begin
