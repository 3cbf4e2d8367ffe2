"""A catalog whose generation takes next to nothing, so that what is left is the pipeline's."""

import json
import pathlib


def written(folder: pathlib.Path, generate_ms: float) -> str:
    """The catalog's file: `light` and, twice as long, `heavy`, with a cascade that keeps every image."""
    path = folder / f"bench-{generate_ms:g}.toml"
    path.write_text("\n".join([_variant("light", generate_ms), _variant("heavy", 2 * generate_ms), _REST]))
    return str(path)


def _variant(name: str, generate_ms: float) -> str:
    values = {
        "engine": "profile", "model": "", "scheduler": "", "steps": 2, "guidance": 1.0, "width": 32, "height": 32,
        "load_ms": 0.0,
    }  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([f"[variants.{name}]", *lines, f"latency_ms = {{ 1 = {generate_ms:.3f} }}"])


_REST = """
[discriminators.look]
engine = "profile"
folder = ""
threshold = 0.0
deferral = [{ threshold = 0.0, deferred = 0.0 }, { threshold = 1.0, deferred = 1.0 }]
latency_ms = 1
[[cascades]]
light = "light"
heavy = "heavy"
discriminator = "look"
[classes]
models = [{ level = "light", hardness = 1.0 }]
"""
