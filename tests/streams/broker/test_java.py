"""Whose data a broker may be begun on; finding Java and Maven, and fetching jars whole or not at all, by stand-ins."""

import pathlib
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.errors import PochadeError
from streams.broker import java, record
from streams.broker.java import JavaMissing, _check_unused
from streams.broker.node import Ports

WAIT = "import sys; print(flush=True); sys.stdin.read()"
HOLD = f"import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX); {WAIT}"
FETCHES = """for argument in "$@"; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done
mkdir -p "$out"; echo jar > "$out/kafka.jar"
"""


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Starts Python with a program and arguments, and ends it."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begun.append(child)
        assert child.stdout is not None
        child.stdout.readline()  # it is as far as it shall be
        return child

    yield start
    for child in begun:
        child.communicate()


def test_data_of_nobody_may_be_used(tmp_path: pathlib.Path) -> None:
    _check_unused(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".lock").touch()  # of one that has ended
    _check_unused(tmp_path)


def test_a_broker_that_has_just_begun_and_holds_no_lock_yet_is_seen(
    tmp_path: pathlib.Path, run: Callable[..., Any]
) -> None:
    child = run(WAIT, str(tmp_path / "server.properties"))
    with pytest.raises(PochadeError, match=rf"process {child.pid}\): `kill {child.pid}`, then start again"):
        _check_unused(tmp_path)


def test_a_broker_that_ran_before_and_has_no_data_says_what_is_lost(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "prepare", lambda *_about: ("java", tmp_path))
    monkeypatch.setattr(java, "launch", lambda *_about: "a process")
    ports, said = Ports(broker=1, controller=2, registry=3), list[str]()
    java.start(tmp_path, ports, "id", said.append)
    assert said == [], "it never ran"
    record.write(tmp_path, record.Record(cluster_id="id", ports=ports))
    java.start(tmp_path, ports, "id", said.append)
    (line,) = said
    assert "is gone, so it begins empty: requests without a result are lost" in line
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    java.start(tmp_path, ports, "id", said.append)
    assert said == [line], "its data is there"


def test_a_lock_whose_holder_is_not_known_is_enough(tmp_path: pathlib.Path, run: Callable[..., Any]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".lock").touch()
    run(HOLD, str(tmp_path / "data" / ".lock"))
    with pytest.raises(PochadeError, match=r"whose process is not seen from here\): stop that one"):
        _check_unused(tmp_path)


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
        java.find_java()


@pytest.mark.parametrize("reported", ["1.8.0_392", "11.0.2"])
def test_a_java_that_is_too_old_is_refused_with_its_version(programs: pathlib.Path, reported: str) -> None:
    program(programs / "java", f"echo 'openjdk version \"{reported}\"' >&2")
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer: .*java is (8|11);"):
        java.find_java()


def test_the_java_of_java_home_comes_first(programs: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs / "java", "echo 'openjdk version \"11\"' >&2")
    program(programs / "jdk" / "bin" / "java", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(programs / "jdk"))
    assert java.find_java() == str(programs / "jdk" / "bin" / "java")


def test_jars_are_fetched_once_and_announced(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program(programs / "mvn", FETCHES)
    said: list[str] = []
    jars = java.fetch_jars(tmp_path, said.append)
    (programs / "mvn").unlink()
    assert java.fetch_jars(tmp_path, said.append) == jars
    assert [jar.name for jar in jars.iterdir()] == ["kafka.jar"]
    assert len(said) == 1 and "fetching Apache Kafka" in said[0]  # noqa: PT018


def test_a_fetch_that_was_killed_half_way_is_begun_anew(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program(programs / "mvn", FETCHES)
    half = java.jars_folder(tmp_path).with_name(java.jars_folder(tmp_path).name + ".part")
    half.mkdir()
    (half / "broken.jar").write_text("half")
    jars = java.fetch_jars(tmp_path, quiet)
    assert [jar.name for jar in jars.iterdir()] == ["kafka.jar"]
    assert not half.exists()


def test_when_maven_fails_its_words_are_in_the_error_and_no_folder_appears(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    program(programs / "mvn", FETCHES + "echo '[ERROR] Unknown host'; exit 1")
    with pytest.raises(PochadeError, match=r"(?s)exit 1.*settings\.xml.*Unknown host"):
        java.fetch_jars(tmp_path, quiet)
    assert not java.jars_folder(tmp_path).exists()


def test_without_maven_the_packages_are_named(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:  # noqa: ARG001
    with pytest.raises(JavaMissing, match=r"no mvn .*maven"):
        java.fetch_jars(tmp_path, quiet)


def test_kafka_s_own_variable_chooses_how_the_broker_s_java_runs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = java.command("java", tmp_path, tmp_path, "kafka.Kafka")
    assert "-XX:TieredStopAtLevel=1" in command
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", "-Xmx1g -XX:+UseG1GC")
    chosen = java.command("java", tmp_path, tmp_path, "kafka.Kafka")
    assert chosen[1:3] == ["-Xmx1g", "-XX:+UseG1GC"]
    assert not [each for each in chosen if "SerialGC" in each or "Tiered" in each]
    assert chosen[-1] == command[-1] == "kafka.Kafka"
