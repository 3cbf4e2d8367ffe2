"""Engine `http`: a service of the user's, which gets images as PNG and their prompts, and answers with scores.

POST URL  {"items": [{"prompt": "a red heart", "image": "iVBORw0KGgo..."}]}   the image is a PNG in base64
200       {"scores": [0.93]}                                                  one an item, in their order
"""

import base64
import io
import json
from collections.abc import Sequence
from typing import Final

import httpx
import numpy as np
from PIL import Image

from agents.judges import JudgeAway, JudgeFailed
from planner.catalog.judges import Judge

TIMEOUT_S: Final = 10.0  # for an answer, where options.timeout_s does not say
BUSY: Final = (408, 425, 429, 500, 502, 503, 504)  # answers of a service that may do better later


class HttpJudge:
    """Asks a service; connections are kept."""

    def __init__(self, judge: Judge) -> None:
        """Open no connection yet."""
        self._url, self._name = str(judge.options["url"]), judge.name
        self._http = httpx.Client(timeout=float(judge.options.get("timeout_s", TIMEOUT_S)))

    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the scores of the service. Raises JudgeAway, JudgeFailed."""
        if not images:
            return []
        items = [{"prompt": prompt, "image": _png(image)} for image, prompt in zip(images, prompts, strict=True)]
        try:
            answer = self._http.post(self._url, json={"items": items})
        except httpx.TransportError as error:
            raise JudgeAway(f"judge {self._name!r} does not answer at {self._url}: {error!r}") from error
        if answer.status_code in BUSY:
            raise JudgeAway(f"judge {self._name!r} at {self._url} answers {answer.status_code}: see its log")
        return self._scores(answer, len(items))

    def _scores(self, answer: httpx.Response, count: int) -> list[float]:
        try:
            scores = [float(each) for each in answer.json()["scores"]] if answer.status_code == 200 else None
        except (json.JSONDecodeError, KeyError, TypeError, ValueError, UnicodeDecodeError):
            scores = None
        if scores is None or len(scores) != count:
            raise JudgeFailed(
                f"judge {self._name!r} at {self._url} must answer 200 with {count} numbers as `scores`: got "
                f"{answer.status_code} {answer.text[:200]!r}; correct the service or options.url"
            )
        return scores


def _png(image: np.ndarray) -> str:
    data = io.BytesIO()
    Image.fromarray(image).save(data, "PNG", compress_level=1)
    return base64.b64encode(data.getvalue()).decode()


load = HttpJudge
