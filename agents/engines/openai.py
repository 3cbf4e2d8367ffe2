"""The `openai` engine: a server of others with OpenAI's images endpoints generates, and batches by itself.

vLLM-Omni, SGLang-Diffusion, Dynamo or a hosted one: [variants.NAME.server] says where it is and what it takes. Every
image begins from noise: these servers' edits change an image as they see fit, and not from a step on.
"""

import io
import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from copy import deepcopy
from typing import Any, Final

from PIL import Image

from agents.engines import CannotRefine, EngineFailed, Generated, GenerationTask, MadeWith, ShouldStop
from agents.engines.openai_client import Client, ServerFault
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions
from planner.catalog.server import Server
from schemas.messages import CallTimes
from streams.clock import now_ms

POLL_S: Final = 0.05  # how often a waiting thread asks whether the images are still wanted
FORMATS: Final = ("PNG", "JPEG", "WEBP")


class OpenAIEngine:
    """Asks a server for the images of a call, all at once; of all calls, for at most `server.in_flight`."""

    def __init__(self, server: Server, client: Client) -> None:
        self._server, self._client = server, client
        self.calls_at_once, self.close = server.in_flight, client.close

    def health(self) -> str:
        """As of `ReportsHealth`."""
        return self._client.health

    def made_with(self, how: ResolvedOptions) -> MadeWith:  # noqa: ARG002  as of every engine
        """As of `SaysMadeWith`: what the server says of itself."""
        return MadeWith(engine="openai", model=self._server.model)

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop
    ) -> Generated | None:
        if how.refine_from_step:
            raise CannotRefine("a server begins each image from noise")
        began, (time_s, limit) = time.monotonic(), self._time(tasks)
        answers = [self._client.begin(self._body(task, how), time_s, limit) for task in tasks]
        try:
            left = set(answers)
            while left:
                if should_stop():
                    return None
                done, left = wait(left, POLL_S, FIRST_EXCEPTION)
                for each in done:
                    each.result()
        finally:
            for each in answers:
                each.cancel()  # closes the connections of what is not done
        images = [self._opened(each.result(), how) for each in answers]
        return Generated(images, [None] * len(images), CallTimes(denoise_ms=1000 * (time.monotonic() - began)))

    def _time(self, tasks: Sequence[GenerationTask]) -> tuple[float, str]:
        """Return how long a call may take, in s, and which limit that is."""
        left_s = max(math.inf if each.deadline_ms is None else each.deadline_ms - now_ms() for each in tasks) / 1000
        if left_s < self._server.timeout_s:
            return max(0.0, left_s), "which the request's deadline left"
        return self._server.timeout_s, "which is server.timeout_s"

    def _body(self, task: GenerationTask, how: ResolvedOptions) -> dict[str, Any]:
        """Return the request for one image, in the server's names."""
        server = self._server
        asked: dict[str, Any] = {"seed": task.seed, "steps": how.steps, "guidance": how.guidance}
        asked |= {"negative_prompt": how.negative_prompt} if how.negative_prompt else {}
        body = {**deepcopy(server.body), "prompt": task.prompt, "n": 1, "size": f"{how.width}x{how.height}"}
        body |= {"model": server.model} if server.model else {}
        body |= {} if server.dialect == "openai" else {"response_format": "b64_json"}  # OpenAI's newer models refuse it
        for name in server.names.keys() & asked.keys():
            table, _, field = server.names[name].rpartition(".")
            (body.setdefault(table, {}) if table else body)[field] = asked[name]
        return body

    def _opened(self, data: bytes, how: ResolvedOptions) -> Image.Image:
        """Open an image, as RGB. Raises ServerFault: it is none, or of another size."""
        url = self._server.url
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            if image.size != (how.width, how.height):
                sizes = f"{image.width}x{image.height} px where {how.width}x{how.height} were asked for"
                raise ServerFault(f"{url} gives an image of {sizes}: correct the variant's size, or what it honours")
            return image.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise ServerFault(f"{url} gives no whole {', '.join(FORMATS)}: {error!r:.200}; see its log") from error


def load(variant: Variant, threads: int, keeping: object = None) -> OpenAIEngine:  # noqa: ARG001  as every engine's
    """Connect to a variant's server. Raises EngineFailed: it is away, refuses the key, or lacks the model."""
    if variant.server is None:
        raise EngineFailed(f"variant {variant.name!r} has no server: add [variants.{variant.name}.server]")
    try:
        client = Client(variant.server)
    except ServerFault as error:
        raise EngineFailed(f"variant {variant.name!r}: {error}") from error
    try:
        client.check()
    except ServerFault as error:
        client.close()
        raise EngineFailed(f"variant {variant.name!r}: {error}") from error
    return OpenAIEngine(variant.server, client)
