"""The trees of an image's layers: Debian's files, the locked wheels, our own; and the image's Python, run from here."""

import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from infra.images import debian
from infra.images.layers import USER, Layer
from schemas.errors import PochadeError

HOME = "var/lib/pochade"  # what a role may write, beside /tmp
PACKAGES = "usr/local/lib/python3.11/dist-packages"  # which Debian's Python reads by itself
LIBRARIES = "usr/lib/x86_64-linux-gnu"
STARTER = """#!/usr/bin/python3.11 -P
from streams.cli import main

main(prog_name="pochade")
"""
WRITTEN = {
    "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\npochade:x:{USER}:{USER}::/{HOME}:/sbin/nologin\n",
    "etc/group": f"root:x:0:\npochade:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
# of wheels: PuLP's own solver (36 MB), tests of numpy (13 MB compiled), Fortran's wrapper, what only compilers read
UNUSED = ["pulp/solverdir/cbc", "numpy/**/tests", "numpy/f2py", "bin"]
UNUSED += [f"**/*.{kind}" for kind in ("pyi", "pyx", "pxd", "c", "cpp", "h", "a")]
UNCOMPILED = r"pygments/(lexers|styles)/"  # of which a run loads one or two


def base(files: Sequence[pathlib.Path], root: pathlib.Path) -> None:
    """Debian's files, a user without rights, the certificates in one file, and the folders that may be written."""
    debian.unpack(files, root)
    for name, text in WRITTEN.items():
        (root / name).write_text(text)
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.write_text("".join(each.read_text() for each in certificates))
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / HOME).mkdir(parents=True)
    for path in filter(pathlib.Path.is_dir, root.rglob("*")):
        path.chmod(0o755)
    (root / "tmp").chmod(0o1777)


def install(base: pathlib.Path, layer: pathlib.Path, asked: Sequence[str]) -> None:
    """Install what pip is asked for into a layer, by the image's Python, so for it and its C library.

    Raises:
        PochadeError: pip could not.
    """
    there = layer / PACKAGES
    there.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--no-compile", "--only-binary=:all:", "--root-user-action=ignore"]
    variables = {"PYTHONPATH": str(_pip_alone(layer))}
    done = run(base, ["-m", "pip", "install", "-q", "--target", str(there), *options, *asked], variables)
    if done.returncode != 0:
        raise PochadeError(f"pip installs nothing for {' '.join(asked)}: {done.stderr.strip()[-2000:]}")
    for each in [found for pattern in UNUSED for found in there.glob(pattern)]:  # `bin` names this machine's Python
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)
    for record in there.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(each for each in lines if not each.startswith(("../../bin/", "bin/"))))
    for each in there.glob("*/*.so.*"):  # wheels have no links: a library has a copy under each of its names
        longer = [other for other in there.glob(f"{each.relative_to(there)}.*") if other.suffix != ".py"]
        if longer and not each.is_symlink() and filecmp.cmp(each, longer[0], shallow=False):
            each.unlink()
            each.symlink_to(longer[0].name)


def start_command(layer: pathlib.Path) -> None:
    """Write the command `pochade`."""
    command = layer / "usr/local/bin/pochade"
    command.parent.mkdir(parents=True)
    command.write_text(STARTER)
    command.chmod(0o755)


def compile_all(base: pathlib.Path, layer: pathlib.Path) -> None:
    """Compile all modules: a root that is read-only keeps no bytecode, and each start would compile anew.

    By the hash of nothing (`unchecked-hash`): neither times nor sources are looked at when a module is loaded.
    """
    how = ["-q", "--invalidation-mode", "unchecked-hash", "-x", UNCOMPILED, "-s", str(layer)]
    done = run(base, ["-m", "compileall", *how, str(layer)])
    if done.returncode not in (0, 1):  # 1: files for other Pythons, such as templates, which nothing imports
        raise PochadeError(f"compileall failed: {done.stderr[-2000:]}")


def write(base: pathlib.Path, layer: pathlib.Path, file: pathlib.Path, level: int, users: Iterable[str] = ()) -> Layer:
    """Write a layer by the image's Python and zlib."""
    script = pathlib.Path(__file__).with_name("layers.py")
    owned = [part for each in users for part in ("--user", each)]
    done = run(base, [str(script), str(layer), str(file), "--level", str(level), *owned])
    if done.returncode != 0:
        raise PochadeError(f"the layer {file.name} cannot be written: {done.stderr[-2000:]}")
    return Layer(**json.loads(done.stdout))


def run(
    base: pathlib.Path, arguments: Sequence[str], variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the image's Python outside of it, with its own libraries, without root; sets have one order in each run."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    known |= {"PYTHONHOME": f"{base}/usr", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*python(base), *arguments]
    return subprocess.run(command, env=known | (variables or {}), capture_output=True, text=True, check=False)


def python(base: pathlib.Path) -> list[str]:
    """The command that starts the image's Python here."""
    libraries = base / LIBRARIES
    return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(base / "usr/bin/python3.11")]


def _pip_alone(layer: pathlib.Path) -> pathlib.Path:
    """A folder with this environment's pip and nothing else of it."""
    import pip

    folder = layer.with_name(f"{layer.name}-pip")
    folder.mkdir(exist_ok=True)
    link = folder / "pip"
    if not link.is_symlink():
        link.symlink_to(pathlib.Path(pip.__file__).parent)
    return folder


def pins(text: str) -> dict[str, str]:
    """Name -> the lines of a lock of wheels that pin it, with their hashes."""
    found: dict[str, str] = {}
    for block in re.split(r"^(?=[\w.-]+(?:\[[^\]]*\])?==)", text, flags=re.M)[1:]:
        name = re.split(r"[\[=]", block)[0]
        found[name] = found.get(name, "") + block  # there may be several, of which markers choose
    return found
