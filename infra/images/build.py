"""`infra/bin/build-image serving|worker|worker-cpu`: an OCI image from locked inputs, without a Docker daemon."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from infra.images import contents, debian, rootfs
from infra.images.layers import USER
from infra.images.layout import Named, write_layout
from schemas.errors import PochadeError

ROOT = pathlib.Path(__file__).parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pochade" / "images"
SERVING = "requirements-serving.lock"


class Image(NamedTuple):
    """What one image has beside Debian's files and the wheels of `SERVING`."""

    lock: str  # of all its wheels; those that SERVING has too are a layer that both images share
    ours: tuple[str, ...]  # distributions of this repository
    variables: dict[str, str]
    title: str


CARDS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
MODELS = ("pochade", "pochade-client", "pochade-tiny")
IMAGES = {
    "serving": Image(SERVING, ("pochade", "pochade-client"), {}, "Pochade: roles that load no model"),
    "worker": Image("requirements-worker.lock", MODELS, CARDS, "Pochade: all roles, with torch for CUDA and CPUs"),
    "worker-cpu": Image("requirements-worker-cpu.lock", MODELS, {}, "Pochade: all roles, with torch for CPUs alone"),
}


class Sizes(NamedTuple):
    """Of a layer, or of all."""

    compressed_bytes: int
    file_bytes: int


class Built(NamedTuple):
    """What was built."""

    digest: str
    sizes: dict[str, Sizes]  # of each layer, and of the total


def build(name: str, out: pathlib.Path, level: int = 6, key: pathlib.Path | None = None) -> Built:
    """Build one image: `out/NAME` is its OCI layout, and beside it lie its bill of materials and its licences.

    `key`: a private key (PEM) that signs the digest.

    Raises:
        PochadeError: an input is not to be had, or differs from what is locked.
    """
    image = IMAGES[name]
    lock = ROOT / image.lock
    if not lock.exists():
        raise PochadeError(_without_a_lock(image))
    packages = debian.locked(debian.LOCK.read_text())
    files = debian.fetched(packages, CACHE / "debs")
    shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=f".{name}-") as work, _ours(image.ours) as ours:
        trees = _trees(pathlib.Path(work), files, lock.read_text(), ours)
        base, *others = trees.values()
        known = contents.licences(base, packages, others)  # before the layers, which take long to compress
        layers = []
        for part, tree in trees.items():
            file = pathlib.Path(work, f"{part}.tar.gz")
            users = [rootfs.HOME] if part == "debian" else []
            layers.append(Named(part, rootfs.write(trees["debian"], tree, file, level, users), file))
        digest = write_layout(out / name, "latest", layers, _config(image), _labels(image))
        (out / f"{name}.licences.tsv").write_text("".join("\t".join(each) + "\n" for each in known))
        bill = contents.bill(f"pochade-{name}", digest, base, others, known, CACHE)
        (out / f"{name}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    if key is not None:
        contents.sign(digest, f"pochade-{name}", key, out / f"{name}.signed.json")
    sizes = {each.name: Sizes(each.layer.compressed_bytes, each.layer.file_bytes) for each in layers}
    total = Sizes(*map(sum, zip(*sizes.values(), strict=True)))
    return Built(digest, {"total": total, **sizes})


def _trees(
    work: pathlib.Path, files: Sequence[pathlib.Path], lock: str, ours: Sequence[str]
) -> dict[str, pathlib.Path]:
    """Layer -> the folder of its files, from what changes seldom to what changes often."""
    trees = {"debian": work / "debian"}
    base = trees["debian"]
    base.mkdir()
    rootfs.base(files, base)
    shared = rootfs.pins((ROOT / SERVING).read_text())
    of_models = {name: pin for name, pin in rootfs.pins(lock).items() if name not in shared}
    for part, pinned in (("wheels", shared), ("wheels-models", of_models)):
        if pinned:
            trees[part] = work / part
            asked = work / f"{part}.txt"
            asked.write_text("".join(pinned.values()))
            rootfs.install(base, trees[part], ["--require-hashes", "-r", str(asked)])
    trees["pochade"] = work / "pochade"
    rootfs.install(base, trees["pochade"], ours)
    rootfs.start_command(trees["pochade"])
    for tree in trees.values():
        rootfs.compile_all(base, tree)
    return trees


@contextlib.contextmanager
def _ours(names: Sequence[str]) -> Iterator[list[str]]:
    """Build our distributions from the tree's files; yields what pip is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [ROOT / "infra/bin/build-wheels", folder, *names], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PochadeError(f"the wheels of {', '.join(names)} cannot be built: {done.stderr.strip()[-1000:]}")
        yield ["--no-index", "--find-links", folder, *names]


def _config(image: Image) -> dict[str, Any]:
    variables = {
        "PATH": "/usr/local/bin:/usr/bin",
        "HOME": f"/{rootfs.HOME}",  # caches of hubs and compilers lie with the deployment's data
        "POCHADE_HOME": f"/{rootfs.HOME}",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",  # all is compiled, and the root may be read-only
        "PYTHONUNBUFFERED": "1",
        "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
        **image.variables,
    }
    return {
        "User": f"{USER}:{USER}",
        "WorkingDir": f"/{rootfs.HOME}",
        "Volumes": {f"/{rootfs.HOME}": {}, "/tmp": {}},
        "Entrypoint": ["pochade"],
        "Cmd": ["--help"],
        "StopSignal": "SIGTERM",
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
    }


def _labels(image: Image) -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of = "org.opencontainers.image."
    return {f"{of}title": image.title, f"{of}version": project["version"], f"{of}licenses": project["license"]}


def _without_a_lock(image: Image) -> str:
    return (
        f"there is no {image.lock}: the index of this machine offers no torch for CPUs alone; `worker` runs on CPUs too"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the image that is named, and print its figures as JSON."""
    parser = argparse.ArgumentParser(prog="build-image", description=__doc__)
    parser.add_argument("image", choices=[*IMAGES, "lock"], help="an image, or lock: write debian.lock anew")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist" / "images", metavar="FOLDER")
    parser.add_argument("--key", type=pathlib.Path, metavar="FILE", help="private key (PEM) that signs the digest")
    parser.add_argument("--level", type=int, default=6, choices=range(1, 10), help="of gzip (6)")
    asked = parser.parse_args(arguments)
    try:
        if asked.image == "lock":
            debian.LOCK.write_text(debian.lock())
            return 0
        built = build(asked.image, asked.out.resolve(), asked.level, asked.key)
    except PochadeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    sizes = {name: each._asdict() for name, each in built.sizes.items()}
    print(json.dumps({"image": asked.image, "digest": built.digest, "sizes": sizes}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
