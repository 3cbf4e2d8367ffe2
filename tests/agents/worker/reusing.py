"""A worker of one variant whose jobs may begin from stored latents, with everything in memory."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agents.engines import Generated, GenerationTask
from agents.reuse.prompt_key import WordsKey
from agents.worker.jobs import Taken
from agents.worker.lookups import Lookups
from agents.worker.reuse import WorkerReuse
from planner.catalog.options import ResolvedOptions
from planner.reuse.guard import Comparison, Difference, Verdict
from planner.reuse.lookups.deadline import DeadlineRule
from planner.reuse.neighbour import latent_name
from planner.reuse.terms import Terms
from schemas.messages import ImageGenerated, Plan
from streams.clock import now_ms
from streams.store.latents import Latent, LatentSpace, to_bytes
from streams.vectors.checking import CheckedVectorStore
from streams.vectors.exact import ExactVectorStore
from streams.vectors.port import Latent as LatentObject
from streams.vectors.port import Nearest, Probed, Source, VectorRow, VectorStore, row_id
from tests.agents.stubs import StubEngine, a_record, read
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_plan, a_request, a_reuse_plan, a_variant
from tests.memory_store import MemoryImageStore

HEAVY = a_variant(name="heavy", steps=10, latency_ms={1: 80_000.0}, honours=("steps", "width", "height"))
SPACE = LatentSpace("space-1", channels=4, factor=8)
LONG, SHORT = DeadlineRule(max_ms=30_000.0), DeadlineRule(max_ms=20.0)
HOUR_MS = 3_600_000
CALL_S = 30.0


class LatentEngine(StubEngine):
    """Gives latents whose values are the seed, and remembers what its tasks began with."""

    latent_space: Any = SPACE

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Any] = []
        self.refuses: Exception | None = None

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool], *,
        wants_latents: bool = False,
    ) -> Generated | None:  # fmt: skip
        if self.refuses is not None and how.refine_from_step:
            raise self.refuses
        self.begun += [(how.refine_from_step, task.over) for task in tasks]
        made = super().generate(tasks, how, should_stop)
        if made is None or not wants_latents:
            return made
        return Generated(made.images, [a_latent(float(task.seed % 100)) for task in tasks])


def a_latent(value: float = 1.0, side: int = 4, autoencoder: str = SPACE.autoencoder) -> Latent:
    return Latent(values=np.full((4, side, side), value, np.float16), autoencoder=autoencoder)


def compared(one: str, other: str) -> Comparison:
    """Prompts of equal words in any order are equal; else they differ in what they show."""
    if sorted(one.split()) == sorted(other.split()):
        return Comparison(Verdict.EQUAL)
    return Comparison(Verdict.DIFFERS, frozenset({Difference.OBJECT}))


class Reusing:
    """A worker of `heavy` under a plan with reuse, its stores, and rows and jobs for it."""

    def __init__(
        self, vectors: VectorStore | None = None, deadlines: DeadlineRule = LONG, plan: Plan | None = None,
        clock_ms: Callable[[], float] | None = None, engine: LatentEngine | None = None,
    ) -> None:  # fmt: skip
        self.engine, self.store, self.key = engine or LatentEngine(), MemoryImageStore(), WordsKey()
        self.plan: Plan | None = plan or a_plan(reuse=a_reuse_plan())
        self.vectors = vectors or CheckedVectorStore(ExactVectorStore())
        self.vectors.ensure(self.key.dimension, CALL_S)
        clock = {} if clock_ms is None else {"clock_ms": clock_ms}
        self.lookups = Lookups(self.vectors, self.store, self.key, compared, deadlines=deadlines, **clock)
        self.reuse = WorkerReuse(lambda: self.plan, self._opened, lambda: self.lookups._clock_ms() / 1000)
        self.reuse.tend()
        self.driver = a_driver("w-1", self.engine, HEAVY, self.store, set(), 3, reuse=self.reuse)  # type: ignore[arg-type]

    def _opened(self, _terms: Terms) -> Lookups:
        return self.lookups

    def row(self, prompt: str, latent: Latent | None = None, tenant: str = "default", **changes: Any) -> VectorRow:
        data = to_bytes(latent or a_latent())
        uri = self.store.put(latent_name(tenant, "j-0"), data, "safetensors")
        usual = VectorRow(
            id=row_id(tenant, prompt), vector=tuple(self.key.embed([prompt])[0].tolist()), tenant=tenant,
            model=SPACE.autoencoder, width=32, height=32, created_ms=now_ms() - HOUR_MS, expires_ms=now_ms() + HOUR_MS,
            latent=LatentObject(uri=uri, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)),
            source=Source(request_id="r-0", image_uri="memory:x", prompt=prompt),
        )  # fmt: skip
        return replace(usual, **changes)

    def keep(self, prompt: str, **changes: Any) -> VectorRow:
        """Put a row into the vector store."""
        row = self.row(prompt, **changes)
        self.vectors.upsert([row], CALL_S)
        return row

    def job(self, prompt: str, request_id: str = "r-1", share: float = 0.8, attempt: int = 1, **asked: Any) -> Taken:
        request = a_request(request_id=request_id, prompt=prompt, **asked)
        job = a_job(a_classified(request), level="heavy~k8", variant="heavy", reuse_share=share)
        return Taken(a_record(job, key=request_id.encode()), attempt)

    def generated(self, *jobs: Taken) -> list[ImageGenerated]:
        return [read(record, ImageGenerated) for record in answers(self.driver, jobs)]

    def one(self, prompt: str, **asked: Any) -> ImageGenerated:
        (image,) = self.generated(self.job(prompt, **asked))
        return image

    def missed(self, prompt: str, **asked: Any) -> str:
        """Why a job runs all its steps; it is generated from noise nevertheless."""
        image = self.one(prompt, **asked)
        assert image.reuse is not None
        assert (image.reuse.step, image.refine_from_step, self.engine.begun[-1]) == (0, 0, (0, None))
        return image.reuse.miss


class Troubled:
    """A vector store that does something else than it should: `nearest` and `probe` call `trouble` first."""

    def __init__(self, trouble: Callable[[], Any], store: VectorStore | None = None) -> None:
        self.trouble: Callable[[], Any] = trouble
        self.store: VectorStore = store or ExactVectorStore()
        self.asked = 0

    def ensure(self, dimension: int, timeout_s: float) -> None:
        self.store.ensure(dimension, timeout_s)

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        self.store.upsert(rows, timeout_s)

    def nearest(self, vector: Sequence[float], wanted: Any, limit: int, timeout_s: float) -> Nearest:
        self.asked += 1
        found = self.trouble()
        return found if found is not None else self.store.nearest(vector, wanted, limit, timeout_s)

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, LatentObject]:
        return self.store.latents(ids, timeout_s)

    def delete(self, selection: Any, timeout_s: float) -> None:
        self.store.delete(selection, timeout_s)

    def probe(self, timeout_s: float) -> Probed:
        self.trouble()
        return self.store.probe(timeout_s)

    def close(self) -> None:
        self.store.close()


class Hanging:
    """A call that ends only when the test does."""

    def __init__(self) -> None:
        self.ends = threading.Event()

    def __call__(self) -> None:
        self.ends.wait()
