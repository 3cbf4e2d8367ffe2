"""Writes an image as an OCI layout, a folder that skopeo, umoci, podman and registries' tools read.

Source: OCI image format specification 1.1, image-layout.md, manifest.md, config.md.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infra.images.layers import Layer

VENDOR = "application/vnd.oci.image"
MADE = "1980-01-01T00:00:00Z"  # as all its files


class Named(NamedTuple):
    """A layer, and what it has."""

    name: str
    layer: Layer
    file: pathlib.Path  # moved into the layout


def write_layout(
    folder: pathlib.Path, tag: str, layers: Sequence[Named], config: Mapping[str, Any], labels: Mapping[str, str]
) -> str:
    """Write the layout of one image into an empty folder; returns its digest, that of the manifest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for each in layers:
        each.file.rename(blobs / each.layer.digest.removeprefix("sha256:"))
    described = {
        "created": MADE,
        "architecture": "amd64",
        "os": "linux",
        "config": {**config, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [each.layer.diff_id for each in layers]},
        "history": [{"created": MADE, "created_by": each.name} for each in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{VENDOR}.manifest.v1+json",
        "config": _blob(blobs, described, "config.v1+json"),
        "layers": [
            {
                "mediaType": f"{VENDOR}.layer.v1.tar+gzip",
                "digest": each.layer.digest,
                "size": each.layer.compressed_bytes,
                "annotations": {"org.opencontainers.image.title": each.name},
            }
            for each in layers
        ],
        "annotations": labels,
    }
    there = _blob(blobs, manifest, "manifest.v1+json")
    index = {
        "schemaVersion": 2,
        "mediaType": f"{VENDOR}.index.v1+json",
        "manifests": [
            {
                **there,
                "platform": {"architecture": "amd64", "os": "linux"},
                "annotations": {"org.opencontainers.image.ref.name": tag},
            }
        ],
    }
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(there["digest"])


def _blob(blobs: pathlib.Path, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    data = _json(content)
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": f"{VENDOR}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
