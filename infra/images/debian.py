"""Debian packages that are locked by version and SHA-256: fetched with apt's configuration, and unpacked."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from schemas.errors import PochadeError

LOCK = pathlib.Path(__file__).with_name("debian.lock")
ARCHITECTURE = "amd64"
WANTED = ("python3.11", "libstdc++6", "ca-certificates", "netbase", "base-files")  # with all that these depend on
LEFT_OUT = {  # of those
    "debconf", "dpkg", "libacl1", "libmd0", "libpcre2-8-0", "libselinux1", "libzstd1", "mawk", "openssl", "tar",
    # the above are called by scripts of installation, as no image has a shell; those below by Python's nis and _dbm
    "libcom-err2", "libdb5.3", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0",
    "libnsl2", "libtirpc3", "libtirpc-common",
}  # fmt: skip
MERGED = ("bin", "sbin", "lib", "lib64")  # links into usr/, as in every Debian of today
UNWANTED = (  # below the root: documentation but licences, and what nothing of ours loads
    "usr/share/bash-completion", "usr/share/bug", "usr/share/info", "usr/share/lintian", "usr/share/locale",
    "usr/share/man", "usr/share/menu", "usr/share/applications", "usr/share/pixmaps", "usr/share/gdb",
    "usr/share/gcc", "usr/share/readline", "usr/lib/x86_64-linux-gnu/gconv", "usr/sbin/update-ca-certificates",
    "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/test",
    "usr/share/binfmts",
    *(f"usr/lib/python3.11/lib-dynload/{each}.cpython-311-x86_64-linux-gnu.so" for each in ("nis", "_dbm")),
)  # fmt: skip


class Package(NamedTuple):
    """One package."""

    name: str
    version: str
    sha256: str


def locked(text: str) -> list[Package]:
    """The packages of a lock: lines of `NAME=VERSION sha256:HEX`."""
    found = []
    for line in filter(lambda each: each and not each.startswith("#"), text.splitlines()):
        match = re.fullmatch(r"([a-z0-9.+-]+)=(\S+) sha256:([0-9a-f]{64})", line)
        if match is None:
            raise PochadeError(f"{LOCK.name} has the line {line!r}, not NAME=VERSION sha256:HEX: write it anew")
        found.append(Package(*match.groups()))
    return found


def lock() -> str:
    """The lock of the newest versions that apt offers now; it reads nothing of what is installed here."""
    command = ["apt-get", "install", "-s", "--no-install-recommends", "-o", "Dir::State::status=/dev/null", *WANTED]
    planned = re.findall(r"^Inst (\S+) \((\S+) ", _said(command), re.M)
    lines = []
    for name, version in sorted((name, version) for name, version in planned if name not in LEFT_OUT):
        (sha256, *_) = re.findall(r"^SHA256: (\S+)$", _said(["apt-cache", "show", f"{name}={version}"]), re.M)
        lines.append(f"{name}={version} sha256:{sha256}\n")
    head = (
        "# Debian packages of every image, by version and SHA-256. Made by 'infra/bin/build-image lock'; do not edit.\n"
    )
    return head + "".join(lines)


def fetched(packages: Sequence[Package], cache: pathlib.Path) -> list[pathlib.Path]:
    """The files of packages, of which those that the cache lacks are fetched.

    Raises:
        PochadeError: apt offers that version no longer, or another file under its name.
    """
    cache.mkdir(parents=True, exist_ok=True)
    wanted = {each.sha256: each for each in packages}
    missing = [each for each in wanted.values() if not (cache / f"{each.sha256}.deb").exists()]
    with tempfile.TemporaryDirectory(dir=cache) as work:
        if missing:
            download(work, *(f"{each.name}:{ARCHITECTURE}={each.version}" for each in missing))
        for file in pathlib.Path(work).glob("*.deb"):
            if (found := sha256(file)) not in wanted:
                raise PochadeError(f"apt's {file.name} has SHA-256 {found}, which is not the locked one")
            file.rename(cache / f"{found}.deb")
    return [cache / f"{each}.deb" for each in wanted]


def download(folder: "str | pathlib.Path", *names: str) -> None:
    """Fetch package files into a folder by apt's own configuration.

    Raises:
        PochadeError: apt does not have them.
    """
    os.chmod(folder, 0o755)  # apt fetches as a user of its own
    done = subprocess.run(["apt-get", "download", *names], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PochadeError(
            f"apt offers no {', '.join(names)}: run apt-get update, and if the version is gone write the lock anew "
            f"(infra/bin/build-image lock); apt says: {done.stderr.strip().splitlines()[-1:]}"
        )


def unpack(files: Sequence[pathlib.Path], root: pathlib.Path) -> None:
    """Write the files of packages below `root`, without running their scripts."""
    for each in MERGED:
        (root / "usr" / each).mkdir(parents=True)
        (root / each).symlink_to(f"usr/{each}")
    status = root / "var/lib/dpkg/status.d"  # where scanners of images look, as in distroless ones
    status.mkdir(parents=True)
    for file in files:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as packed:
            keep = ["--keep-directory-symlink", "--no-same-owner", "--no-same-permissions"]
            subprocess.run(["tar", "-xf", "-", *keep, "-C", root], stdin=packed.stdout, check=True)
        control = _said(["dpkg-deb", "-f", str(file)])
        (status / re.findall(r"^Package: (\S+)$", control, re.M)[0]).write_text(control)
    for unwanted in UNWANTED:
        path = root / unwanted
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name != "copyright":
            path.unlink()


def sha256(file: pathlib.Path) -> str:
    """Of a file, in hex."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if done.returncode != 0:
        raise PochadeError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
