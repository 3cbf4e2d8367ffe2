"""Finds the earlier image that each reused one began from, for the sender of both.

A result does not name it, as reuse between requests must not show; it states K and the similarity alone. Among the
earlier images of the same tenant whose latents were stored, the source is the one whose prompt has that similarity.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.errors import PochadeError
from schemas.messages import Plan, Result, Status
from streams.operator.explain import steps_of

CLOSE = 2e-3  # of two cosines: stores round theirs

# replay is a client and may not import agents: a process of their own embeds prompts as workers do
CHILD = """
import json, sys
from agents.reuse.prompt_key import open_key
asked = json.load(sys.stdin)
print(json.dumps(open_key(asked["key"]).embed(asked["prompts"]).tolist()))
"""

Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseSource:
    """An image that another one began from."""

    request_id: str
    prompt: str
    image_uri: str
    among: int  # images with this similarity, 1 or more: equal prompts have equal similarity


def sources_of(
    results: Sequence[Result], earlier: Iterable[Result], plans: Sequence[Plan], embed: Embed | None = None
) -> dict[str, ReuseSource]:
    """request_id -> its source, of the reused ones among `results`, where one has the similarity that is stated.

    `earlier`: all results that may be sources. Raises PochadeError: prompts cannot be embedded.
    """
    reused = [result for result in results if result.reused and result.similarity is not None]
    if not reused:
        return {}
    stored = [result for result in earlier if has_stored(result)]
    prompts = sorted({result.prompt for result in (*reused, *stored)})
    key = next((plan.reuse.key for plan in reversed(plans) if plan.reuse is not None), "")
    vectors = dict(zip(prompts, (embed or embedder(key))(prompts), strict=True))
    found = {result.request_id: _source_of(result, stored, vectors) for result in reused}
    return {name: source for name, source in found.items() if source is not None}


def has_stored(result: Result) -> bool:
    """Whether an image may be another one's source: its latent was stored, and nothing was reused for it."""
    stages = steps_of(result)
    return result.status is Status.COMPLETED and bool(stages) and stages[-1].latent is not None and not result.reused


def _source_of(result: Result, stored: Sequence[Result], vectors: Mapping[str, np.ndarray]) -> ReuseSource | None:
    assert result.similarity is not None, "it was reused"
    began_ms = result.ended_ms - steps_of(result)[-1].generate_ms
    there = [each for each in stored if each.tenant == result.tenant and each.ended_ms <= began_ms and each.image_uri]
    if not there:
        return None
    cosines = np.array([vectors[each.prompt] for each in there]) @ vectors[result.prompt]
    off = np.abs(cosines - result.similarity)
    if off.min() > CLOSE:
        return None
    alike = [each for each, by in zip(there, off.tolist(), strict=True) if by <= off.min() + 1e-6]
    newest = max(alike, key=lambda each: each.ended_ms)
    uri = newest.image_uri
    assert uri is not None, "images without an address are left out"
    return ReuseSource(request_id=newest.request_id, prompt=newest.prompt, image_uri=uri, among=len(alike))


def embedder(key: str) -> Embed:
    """Return a function that embeds prompts as workers do under a plan with this key, in a process of its own."""

    def embed(prompts: Sequence[str]) -> np.ndarray:
        asked = json.dumps({"key": key, "prompts": list(prompts)})
        done = subprocess.run([sys.executable, "-c", CHILD], input=asked, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise PochadeError(f"the sources of reused images cannot be found: {why:.500}")
        return np.array(json.loads(done.stdout.splitlines()[-1]), np.float32)

    return embed
