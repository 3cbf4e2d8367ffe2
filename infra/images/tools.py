"""skopeo and umoci, which check images: from Debian, unpacked into a cache and not installed."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

from infra.images import debian

NEEDED = ("skopeo", "umoci", "libgpgme11", "libassuan0", "libgpg-error0", "libdevmapper1.02.1")


def tool(name: str, cache: pathlib.Path) -> list[str]:
    """The command that starts `skopeo` or `umoci`: that on the PATH, else Debian's, fetched once.

    Raises:
        PochadeError: apt does not have it.
    """
    if found := shutil.which(name):
        return [found]
    there = cache / "tools"
    if not there.exists():
        fresh = there.with_name(f"tools-{os.getpid()}")
        fresh.mkdir(parents=True)
        debian.download(fresh, *NEEDED)
        for file in fresh.glob("*.deb"):
            subprocess.run(["dpkg", "-x", file, fresh], check=True)
            file.unlink()
        fresh.rename(there)
    libraries = f"{there}/usr/lib/x86_64-linux-gnu:{there}/lib/x86_64-linux-gnu"
    return ["env", f"LD_LIBRARY_PATH={libraries}", f"{there}/usr/bin/{name}"]


def main(arguments: Sequence[str]) -> None:
    """Run a tool: `python -m infra.images.tools umoci --help`."""
    from infra.images.build import CACHE

    command = [*tool(arguments[0], CACHE), *arguments[1:]]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
