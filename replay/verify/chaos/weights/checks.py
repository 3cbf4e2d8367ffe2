"""Checks completed requests: components by name, and images by those that the shipped weights generate.

A component's digest is compared by the worker that loads it. Here its images are held against the same requests
generated again from the shipped folders, by a process that reads no volume and no remote: other weights, or a
combination that was not undone, show in the pixels.
"""

import base64
import io
import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from PIL import Image

from planner.catalog.components import needs_components
from planner.catalog.entries import Variant
from replay.verify.audit.components import contradiction
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Result, Status
from streams.store.port import ImageStore

CHILD: Final = "agents.lab.regenerate"
MAX_DIFFERENCE: Final = 3  # of 255, by which an image of a batch may differ from the same one generated alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The findings about the completed requests that named components."""

    requests: int = 0  # completed ones that named some
    misnamed: tuple[str, ...] = ()  # a sentence for each whose result does not say the components that were asked
    images: int = 0  # that were generated again
    largest_difference: int = 0  # of a colour of a pixel, of 255
    unlike: tuple[str, ...] = ()  # a sentence for each image that differs by more than MAX_DIFFERENCE
    untold: tuple[str, ...] = ()  # a sentence for each request that FAILED without a reason that names what failed

    tiers: Mapping[str, Any] = field(default_factory=dict)  # what heartbeats said (`weights/tiers.py`)

    def broken(self) -> str | None:
        """Return one sentence about each broken promise; None when all are kept."""
        said = (
            (self.misnamed, "results do not say the components that were asked"),
            (self.unlike, "images are not those of the shipped weights"),
            (self.untold, "requests failed and do not say for which component"),
            (self.tiers.get("exceeded", ()), "tiers held more than their budget"),
        )
        return "; ".join(f"{len(each)} {what} ({each[0]})" for each, what in said if each) or None

    def report(self) -> dict[str, Any]:
        """Return it for a report."""
        return asdict(self)


def named(requests: Mapping[str, GenerateRequest], variant: Variant) -> dict[str, GenerateRequest]:
    """Return the requests that name a component of a variant."""
    return {
        name: each
        for name, each in requests.items()
        if needs_components(each.options) or each.options.model in variant.bases
    }


def check_names(asked: Mapping[str, GenerateRequest], results: Mapping[str, Result], variant: Variant) -> Checked:
    """Hold the components that results say against what was asked. `asked`: as `named` returns them."""
    completed = {name: results[name] for name in asked if name in results and results[name].status is Status.COMPLETED}
    misnamed, untold = list[str](), list[str]()
    for name, result in completed.items():
        if why := contradiction(asked[name].options, result, variant):
            misnamed.append(f"{name} {why}")
    for name in asked:
        result = results.get(name)  # type: ignore[assignment]
        if result is not None and result.status is Status.FAILED and not _names_component(result.reason, variant):
            untold.append(f"{name}: {result.reason}")
    return Checked(requests=len(completed), misnamed=tuple(misnamed), untold=tuple(untold))


def _names_component(reason: str, variant: Variant) -> bool:
    """Whether a reason names a component, or says that a request ended its workers, which is not a component's."""
    return any(each.id in reason for each in variant.components) or "EndedWorkers" in reason


def compare(stored: Mapping[str, Sequence[bytes]], again: Mapping[str, Sequence[bytes]]) -> Checked:
    """Hold the images of requests against those generated again, by id, each in its order."""
    count, largest, unlike = 0, 0, list[str]()
    for name, images in stored.items():
        for number, (one, other) in enumerate(zip(images, again[name], strict=True)):
            difference = _difference(one, other)
            count, largest = count + 1, max(largest, difference)
            if difference > MAX_DIFFERENCE:
                unlike.append(f"image {number} of {name} differs by {difference} of 255 from its weights'")
    return Checked(images=count, largest_difference=largest, unlike=tuple(unlike))


def _difference(one: bytes, other: bytes) -> int:
    pixels = [np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), dtype=np.int16) for each in (one, other)]
    return 255 if pixels[0].shape != pixels[1].shape else int(np.abs(pixels[0] - pixels[1]).max())


def check(
    catalog: str, variant: Variant, requests: Mapping[str, GenerateRequest], results: Iterable[Result],
    store: ImageStore,
) -> Checked:  # fmt: skip
    """Check names and images of a run. `results`: the first one of each request.

    Raises PochadeError: an image cannot be read, or the process that generates again fails.
    """
    ended = {each.request_id: each for each in results}
    asked = named(requests, variant)
    found = check_names(asked, ended, variant)
    right = {
        name: ended[name] for name in asked if name in ended and ended[name].status is Status.COMPLETED
    }  # those that are misnamed, too: they show what was really used
    stored = {name: [store.get(uri) for uri in result.image_uris] for name, result in right.items()}
    inputs = {uri: store.get(uri) for name in right for uri in asked[name].options.control_images}
    compared = compare(stored, regenerate(catalog, variant.name, [asked[name] for name in right], inputs))
    return replace(
        found, images=compared.images, largest_difference=compared.largest_difference, unlike=compared.unlike
    )


def regenerate(
    catalog: str, variant: str, requests: Collection[GenerateRequest], inputs: Mapping[str, bytes]
) -> dict[str, list[bytes]]:
    """Return the PNGs of requests by id, generated from the folders that the catalog names, in a process of its own.

    `inputs`: the images that requests name, by URI. Raises PochadeError where that process fails.
    """
    if not requests:
        return {}
    question = {
        "catalog": catalog,
        "variant_name": variant,
        "requests": [asdict(each) for each in requests],
        "inputs": {uri: base64.b64encode(data).decode() for uri, data in inputs.items()},
    }
    done = subprocess.run(
        [sys.executable, "-m", CHILD], input=json.dumps(question), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PochadeError(f"{CHILD} ended with status {done.returncode}: {done.stderr[-1000:]}")
    answers = json.loads(done.stdout.splitlines()[-1])
    return {name: [base64.b64decode(image) for image in images] for name, images in answers.items()}
