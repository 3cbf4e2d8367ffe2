"""What an image has: its bill of materials (CycloneDX), licences, and a digest that a key signs."""

import base64
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from infra.images import debian, rootfs
from schemas.errors import PochadeError

TOOL = "cyclonedx-bom==7.5.0"
SPECIFICATION = "1.6"
METADATA_ALONE: Final = "none stated (metadata alone, no files)"  # of a wheel that only requires others
CHECK = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(str(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or "") or 0)
"""


class Licence(NamedTuple):
    """Of one package."""

    kind: str  # deb, wheel
    name: str
    version: str
    licence: str  # as its copyright file or metadata say
    files: str  # in the image, comma-separated


def licences(base: pathlib.Path, packages: Iterable[debian.Package], layers: Sequence[pathlib.Path]) -> list[Licence]:
    """The licence of each package, with its text's file in the image.

    Raises:
        PochadeError: a package with files has neither a text nor a name of its licence.
    """
    found = [_of_deb(base, each) for each in packages]
    for layer in layers:
        paths = [str(layer / rootfs.PACKAGES)]
        found += [_of_wheel(each) for each in importlib.metadata.distributions(path=paths)]
    if lacking := [each.name for each in found if not each.licence and not each.files]:
        raise PochadeError(f"no licence is stated by {', '.join(lacking)}")
    return sorted(found)


def _of_deb(base: pathlib.Path, package: debian.Package) -> Licence:
    file = base / "usr/share/doc" / package.name / "copyright"
    text = file.read_text(errors="replace")
    names = re.findall(r"^License: *(\S.*)$", text, re.M) if text.startswith("Format:") else []
    return Licence("deb", package.name, package.version, "; ".join(dict.fromkeys(names)), f"/{file.relative_to(base)}")


def _of_wheel(wheel: importlib.metadata.Distribution) -> Licence:
    about = wheel.metadata.json
    named = about.get("license_expression") or about.get("license") or ""
    classified = [each.split(" :: ")[-1] for each in about.get("classifier", []) if each.startswith("License ::")]
    if not named or len(str(named)) > 120:  # some put the whole text there
        named = "; ".join(classified)
    if not named and wheel.files and all(each.parts[0].endswith(".dist-info") for each in wheel.files):
        named = METADATA_ALONE
    texts = [each for each in wheel.files or [] if re.search(r"(?i)\b(licen[cs]e|copying|notice)", each.name)]
    paths = sorted(f"/{rootfs.PACKAGES}/{each}" for each in texts if each.suffix not in (".py", ".pyc"))
    return Licence("wheel", wheel.name, wheel.version, str(named), ",".join(paths))


def bill(
    title: str,
    digest: str,
    base: pathlib.Path,
    layers: Sequence[pathlib.Path],
    known: Sequence[Licence],
    cache: pathlib.Path,
) -> dict[str, Any]:
    """The bill of materials: what cyclonedx-bom says of the wheels, and Debian's packages besides.

    Raises:
        PochadeError: the tool is not to be had, or the bill breaks CycloneDX's schema.
    """
    tool = _tool(cache)
    starter = layers[0].with_name("python-of-image")
    paths = ":".join(str(each / rootfs.PACKAGES) for each in layers)
    start = " ".join(map(repr, rootfs.python(base)))
    home = str(base / "usr")
    starter.write_text(f'#!/bin/sh\nexport PYTHONHOME={home!r} PYTHONPATH={paths!r}\nexec {start} "$@"\n')
    starter.chmod(0o755)
    asked = ["-m", "cyclonedx_py", "environment", "--output-reproducible", "--sv", SPECIFICATION, "-o", "-"]
    found: dict[str, Any] = json.loads(_said([str(tool), *asked, str(starter)]))
    found["metadata"]["component"] = {
        "type": "container", "bom-ref": "image", "name": title, "version": digest,
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
    }  # fmt: skip
    found["components"] += [_component(each) for each in known if each.kind == "deb"]
    _said([str(tool), "-c", CHECK], json.dumps(found))
    return found


def _component(package: Licence) -> dict[str, Any]:
    purl = f"pkg:deb/debian/{package.name}@{package.version.replace(':', '%3A')}?arch={debian.ARCHITECTURE}"
    names = package.licence.split("; ") if package.licence else [f"see {package.files}"]
    return {
        "type": "library", "bom-ref": purl, "name": package.name, "version": package.version, "purl": purl,
        "licenses": [{"license": {"name": each}} for each in names],
    }  # fmt: skip


def _tool(cache: pathlib.Path) -> pathlib.Path:
    """The Python of an environment that has cyclonedx-bom alone; made once."""
    there = cache / TOOL.replace("==", "-")
    python = there / "bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import cyclonedx_py"], check=False).returncode != 0:
        _said([sys.executable, "-m", "venv", "--clear", str(there)])
        _said([str(python), "-m", "pip", "install", "-q", TOOL])
    return python


def sign(digest: str, reference: str, key: pathlib.Path, signed: pathlib.Path) -> None:
    """Write `signed`, a payload that names the digest, and beside it its signature by a private key (PEM), `.sig`.

    Payload: "simple signing" of containers, as cosign writes; signature: of its SHA-256, in base64, as cosign's too.

    Raises:
        PochadeError: the key cannot be read, or needs a password.
    """
    payload = {
        "critical": {
            "identity": {"docker-reference": reference},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": None,
    }
    signed.write_text(json.dumps(payload, separators=(",", ":")))
    command = ["openssl", "dgst", "-sha256", "-passin", "pass:", "-sign", str(key), str(signed)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[:1]
        raise PochadeError(f"openssl signs nothing with {key}: {said}; give a private key in PEM without a password")
    signed.with_suffix(".sig").write_bytes(base64.b64encode(done.stdout) + b"\n")


def _said(command: Sequence[str], given: str = "") -> str:
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=known)
    if done.returncode != 0:
        raise PochadeError(f"{pathlib.Path(command[0]).name} {' '.join(command[1:4])}: {done.stderr.strip()[-800:]}")
    return done.stdout
