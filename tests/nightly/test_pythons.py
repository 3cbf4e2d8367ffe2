"""Each Python of this machine runs the tests of `make test-fast`; of the others: whether wheels exist."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.environments import FILES, built, clean
from tests.paths import ROOT

VERSIONS = tuple(f"3.{minor}" for minor in range(10, 15))
OF_CLIENT_ALONE = "3.10"
KEPT = ROOT / ".pochade" / "tests" / "pythons"
ALL, TESTS = (ROOT / name for name in ("requirements.lock", "requirements-test.lock"))
WANTED = "not (torch or broker or milvus or slow or lab)"  # as infra/bin/check-fast
LEAST_PASSED = 8300
CLIENT = """
import pochade, confluent_kafka, fastavro
pochade.Client(pochade.Kafka({"bootstrap.servers": "127.0.0.1:9"})).close()
"""


@functools.cache
def found() -> dict[str, str]:
    """Version, such as 3.12 -> a Python of it, on the PATH or under pyenv."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    on_path = [each for version in VERSIONS if (each := shutil.which(f"python{version}"))]
    pythons: dict[str, str] = {}
    for candidate in (*on_path, *sorted(pyenv.glob("versions/3.*/bin/python"))):
        script = "import sys, ssl, venv; print('%d.%d' % sys.version_info[:2], sys.executable)"
        asked = subprocess.run([str(candidate), "-c", script], capture_output=True, text=True, check=False)
        if asked.returncode == 0:  # a shim of pyenv fails where its version is not chosen
            version, executable = asked.stdout.split(maxsplit=1)
            pythons.setdefault(version, executable.strip())
    return {version: pythons[version] for version in VERSIONS if version in pythons}


HERE, ELSEWHERE = [*found()], [each for each in VERSIONS if each not in found()]


@pytest.fixture(scope="module", autouse=True)
def _index(tmp_path_factory: pytest.TempPathFactory) -> None:
    small = next(line for line in pinned().splitlines() if line.startswith("iniconfig=="))
    fetch = ["-m", "pip", "download", "-q", "--no-deps", "--retries", "1", "-d", str(tmp_path_factory.mktemp("got"))]
    done = subprocess.run([sys.executable, *fetch, small], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no index of packages answers: {done.stderr.strip()[-200:]}")


@pytest.mark.parametrize("version", [each for each in HERE if each != OF_CLIENT_ALONE])
def test_the_tests_of_make_test_fast_pass(version: str) -> None:
    python = environment(version)
    command = [str(python), "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-m", WANTED, "tests"]
    done = subprocess.run(command, cwd=ROOT, env=clean(), capture_output=True, text=True, check=False)
    *_, summary = done.stdout.splitlines()
    print(f"Python {version}: {summary}")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", summary)
    assert passed is not None
    assert int(passed[1]) >= LEAST_PASSED, summary


@pytest.mark.parametrize("version", HERE)
def test_the_clients_wheel_passes_its_tests_of_the_gateway_beside_packages_of_its_own(
    version: str, tmp_path: pathlib.Path
) -> None:
    wheel = built(tmp_path / "dist", "pochade-client")["pochade-client"]
    python = made(tmp_path / "venv", version)
    run(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", f"{wheel}[kafka]", "pytest", "pytest-timeout")
    run(python, "-c", CLIENT)
    options = ["--noconftest", "-p", "no:cacheprovider", "tests/streams/client/test_gateway.py"]
    print(f"Python {version}: {run(python, '-m', 'pytest', *options).splitlines()[-1]}")


@pytest.mark.parametrize("version", [each for each in ELSEWHERE if each != OF_CLIENT_ALONE])
def test_for_a_python_that_is_not_here_every_package_of_the_locks_has_a_wheel(version: str) -> None:
    command = ["uv", "pip", "compile", str(ALL), "--only-binary", ":all:", "--python-version", version, "--no-header"]
    done = subprocess.run(
        [str(ROOT / "infra/bin/with-uv"), *command, "--no-annotate"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    chosen = {*re.findall(r"^\S+==[^\s;]+", done.stdout, re.MULTILINE)}
    print(f"Python {version}: {len(chosen)} packages")
    assert chosen <= {*re.findall(r"^\S+==[^\s;]+", pinned(), re.MULTILINE)}


def environment(version: str) -> pathlib.Path:
    """A Python of this version with the packages of the serving lock and of tests; kept until those change."""
    home = KEPT / version
    sources = [TESTS, *(ROOT / file for file in FILES.values())]
    wanted = hashlib.sha256(b"".join(each.read_bytes() for each in sources) + found()[version].encode()).hexdigest()
    stamp = home / "installed"
    if not (stamp.is_file() and stamp.read_text() == wanted):
        made(home, version)
        done = subprocess.run(
            [str(ROOT / "infra/bin/set-up"), str(home), str(TESTS)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        stamp.write_text(wanted)
    return home / "bin" / "python"


def made(home: pathlib.Path, version: str) -> pathlib.Path:
    """A new environment of a Python."""
    run(found()[version], "-m", "venv", "--clear", str(home))
    return home / "bin" / "python"


def pinned() -> str:
    """The lock without hashes, one package a line."""
    return "\n".join(re.findall(r"^\S+==[^\\\n]+", ALL.read_text(), re.MULTILINE))


def run(python: "str | pathlib.Path", *arguments: str) -> str:
    """Run a Python in the repository; what it prints."""
    done = subprocess.run([str(python), *arguments], cwd=ROOT, env=clean(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}{done.stderr[-2000:]}"
    return done.stdout
