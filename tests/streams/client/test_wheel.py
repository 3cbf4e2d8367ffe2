"""The client's wheel in an environment of its own: its content, its size, and what its import takes."""

import os
import pathlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable

import pytest

from tests.environments import Environment, make
from tests.imports import CLIENT, sources

MAX_WHEEL_BYTES, MAX_INSTALLED_BYTES = 60_000, 10_000_000
MAX_IMPORT = 6  # times what a bare Python takes to start: machines differ by more than 2 (3.5 and 4.4 seen)
TRIES = 7  # the least of these: whatever else runs here only adds to it
CPU = """
import resource
{}
used = resource.getrusage(resource.RUSAGE_SELF)
print(1000 * (used.ru_utime + used.ru_stime))
"""
PYTHONS = tuple(f"python3.{minor}" for minor in range(10, 15))


@pytest.fixture(scope="module")
def wheel(wheels_of: Callable[..., dict[str, pathlib.Path]]) -> pathlib.Path:
    return wheels_of("pochade-client")["pochade-client"]


@pytest.fixture(scope="module")
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make(tmp_path_factory.mktemp("client") / "venv", [wheel], ["pochade-client"])


def test_the_wheel_has_the_package_its_types_and_its_licence_and_nothing_else(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith("METADATA"))
    own = {name for name in names if ".dist-info/" not in name}
    assert own == {str(path.relative_to(CLIENT)) for path in sources("pochade")} | {"pochade/py.typed"}
    assert any(name.endswith("LICENSE") for name in names)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in required if "extra ==" not in line] == ["Requires-Dist: httpx<1,>=0.28"]
    assert "Requires-Python: >=3.10" in metadata


def test_the_wheel_and_its_installation_are_small(wheel: pathlib.Path, installed: Environment) -> None:
    packed, all_of_it = wheel.stat().st_size, installed.size_bytes()
    print(f"wheel {packed / 1e3:.1f} KB, installed with httpx {all_of_it / 1e6:.2f} MB")
    assert packed <= MAX_WHEEL_BYTES
    assert all_of_it <= MAX_INSTALLED_BYTES


def test_the_import_takes_little_and_httpx_is_loaded_at_the_first_call(installed: Environment) -> None:
    installed.said("import pochade")  # leaves bytecode
    bare, whole = (
        min(float(installed.said(CPU.format(line))) for _ in range(TRIES)) for line in ("", "import pochade")
    )
    print(f"import pochade: {whole - bare:.1f} ms of processor above {bare:.1f} ms of a bare Python")
    assert whole - bare <= MAX_IMPORT * bare
    script = "import sys, pochade; c = pochade.Client('http://127.0.0.1:9'); print('httpx' in sys.modules)"
    assert installed.said(script).strip() == "False"


def test_the_version_is_the_clients_and_what_an_extra_lacks_is_named(installed: Environment) -> None:
    assert installed.said("import pochade; print(pochade.__version__)").strip() == "0.2.0"
    script = """
import pochade
client = pochade.Client(pochade.Kafka({"bootstrap.servers": "127.0.0.1:9"}))
for call in (lambda: client.submit("a"), client.handle("r-1").result):
    try:
        call()
    except pochade.Unsupported as error:
        print(error)
"""
    assert installed.said(script).count("pip install 'pochade-client[kafka]'") == 2


@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_that_is_here_can_import_it(python: str) -> None:
    script = "import pochade; from pochade import Kafka; pochade.Client('http://127.0.0.1:9'); Kafka({})"
    if not (found := shutil.which(python)) or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{python} is not here")
    subprocess.run([found, "-c", script], check=True, env={**os.environ, "PYTHONPATH": str(CLIENT)})
