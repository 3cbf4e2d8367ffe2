"""Finding Java and Maven, and fetching jars whole or not at all; both are stand-ins here."""

import pathlib
import stat

import pytest

from schemas.errors import PochadeError
from streams.broker import jars as broker_jars
from streams.broker.jars import JavaMissing

FETCHES = """for argument in "$@"; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done
mkdir -p "$out"; echo jar > "$out/kafka.jar"
"""


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A PATH where only what the test puts there comes before the system's shell tools."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for tool in ("mkdir", "echo"):
        (folder / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def program(path: pathlib.Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


def quiet(_: str) -> None:
    pass


def test_without_java_the_packages_are_named(programs: pathlib.Path) -> None:  # noqa: ARG001  sets PATH
    with pytest.raises(JavaMissing, match=r"no java .*openjdk-17-jre-headless maven.*openjdk@17 maven"):
        broker_jars.java()


@pytest.mark.parametrize("told", ["1.8.0_392", "11.0.2"])
def test_a_java_that_is_too_old_is_refused_with_its_version(programs: pathlib.Path, told: str) -> None:
    program(programs / "java", f"echo 'openjdk version \"{told}\"' >&2")
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer: .*java is (8|11);"):
        broker_jars.java()


def test_the_java_of_java_home_comes_first(programs: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs / "java", "echo 'openjdk version \"11\"' >&2")
    program(programs / "jdk" / "bin" / "java", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(programs / "jdk"))
    assert broker_jars.java() == str(programs / "jdk" / "bin" / "java")


def test_jars_are_fetched_once_and_announced(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program(programs / "mvn", FETCHES)
    said: list[str] = []
    jars = broker_jars.fetch(tmp_path, said.append)
    (programs / "mvn").unlink()
    assert broker_jars.fetch(tmp_path, said.append) == jars
    assert [jar.name for jar in jars.iterdir()] == ["kafka.jar"]
    assert len(said) == 1 and "fetching Apache Kafka" in said[0]  # noqa: PT018


def test_a_fetch_that_was_killed_half_way_is_begun_anew(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program(programs / "mvn", FETCHES)
    half = broker_jars.folder(tmp_path).with_name(broker_jars.folder(tmp_path).name + ".part")
    half.mkdir()
    (half / "broken.jar").write_text("half")
    jars = broker_jars.fetch(tmp_path, quiet)
    assert [jar.name for jar in jars.iterdir()] == ["kafka.jar"]
    assert not half.exists()


def test_when_maven_fails_its_words_are_in_the_error_and_no_folder_appears(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    program(programs / "mvn", FETCHES + "echo '[ERROR] Unknown host'; exit 1")
    with pytest.raises(PochadeError, match=r"(?s)exit 1.*settings\.xml.*Unknown host"):
        broker_jars.fetch(tmp_path, quiet)
    assert not broker_jars.folder(tmp_path).exists()


def test_without_maven_the_packages_are_named(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:  # noqa: ARG001
    with pytest.raises(JavaMissing, match=r"no mvn .*maven"):
        broker_jars.fetch(tmp_path, quiet)
