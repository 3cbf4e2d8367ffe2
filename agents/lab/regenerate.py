"""Generates requests again from the weights that ship: `pochade chaos` runs this as a process of its own.

The question is JSON on standard input, the answer JSON on the last line of standard output: request id -> PNGs, base64.
Components are used where the catalog says that they lie, each compared with its digest.
"""

import base64
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from agents.engines import GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.worker.work import image_seeds
from planner.catalog.entries import Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateRequest
from streams import catalogs
from streams.codec.avro import from_json


def generate(
    catalog: str, variant_name: str, requests: Sequence[Mapping[str, Any]], inputs: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the images of each request, which is given by its fields; `inputs`: URI -> bytes of images, base64."""
    variant = catalogs.load(catalog).level(variant_name)
    images = {uri: Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB") for uri, data in inputs.items()}
    engine = load(variant, 1)
    try:
        decoded = [from_json(GenerateRequest, json.dumps(each)) for each in requests]
        return {each.request_id: _images(engine, variant, each, images) for each in decoded}
    finally:
        engine.close()


def _images(
    engine: DiffusersEngine, variant: Variant, request: GenerateRequest, images: Mapping[str, Image.Image]
) -> list[str]:
    options, how = request.options, resolve_options(request.options, variant)
    tasks = [
        GenerationTask(
            request_id=request.request_id,
            prompt=request.prompt,
            seed=seed,
            controls=tuple(images[uri] for uri in options.control_images),
        )
        for seed in image_seeds(request)
    ]
    made = engine.generate(tasks, how, lambda: False)
    assert made is not None, "should_stop never stops this call"
    return [_png(image) for image in made.images]


def _png(image: Image.Image) -> str:
    data = io.BytesIO()
    image.save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def main() -> None:
    """Answer the question on standard input."""
    asked = json.load(sys.stdin)
    print(json.dumps(generate(**asked)))


if __name__ == "__main__":
    main()
