"""Embedded brokers as Java processes: Java, Kafka's jars, command line, formatting of data, a class archive.

Kafka's jars come from Maven Central and are fetched once. The class archive makes for quick starts.
"""

import fcntl
import importlib.resources
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

import psutil

from schemas.errors import PochadeError
from streams.broker import probe, record
from streams.broker.config import properties, render
from streams.broker.node import HOST, KAFKA_VERSION, Ports, free_ports
from streams.broker.process import Process, Say, spawn

STOP_LIMIT_S = 15.0
FORMAT_LIMIT_S = 120
ARCHIVE_LIMIT_S = 60.0
ARCHIVE = "classes.jsa"
MIN_JAVA = 17
LOST = (
    "the broker's data in {data} is gone, so it begins empty: requests without a result are lost, as are all results, "
    "plans and API keys. Images stay in the store: `pochade gc --orphans --dry-run` counts them"
)
FETCH_LIMIT_S = 900
INSTALL_HINT = "install Java 17 and Maven (Debian, Ubuntu: openjdk-17-jre-headless maven; macOS: openjdk@17 maven)"

JVM_VARIABLE = "KAFKA_JVM_PERFORMANCE_OPTS"  # Kafka's own; it takes the place of `_JVM`, as in Kafka's scripts
HEAP = "-Xms64m -Xmx256m -XX:+UseSerialGC"
_JVM = f"{HEAP} -XX:TieredStopAtLevel=1"  # a start is quicker by C1 alone, some 1,500 requests and more by C2 too
_QUIET = ("-XX:+ExitOnOutOfMemoryError", "-Xlog:disable", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class JavaMissing(PochadeError):
    """Java is missing or too old, or Maven is missing; the message names the packages to install."""


def command(java: str, jars: pathlib.Path, kafka_home: pathlib.Path, main: str, *arguments: str) -> list[str]:
    """Return the command line of one of Kafka's main classes."""
    archive = jars / ARCHIVE
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    log4j = f"-Dlog4j2.configurationFile={kafka_home / 'log4j2.properties'}"
    chosen = os.environ.get(JVM_VARIABLE, _JVM).split()
    return [java, *chosen, *_QUIET, *shared, log4j, "-cp", class_path(jars), main, *arguments]


def class_path(jars: pathlib.Path) -> str:
    """Return the class path of all jars in one fixed order, which the class archive depends on."""
    return os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))


def start(kafka_home: pathlib.Path, ports: Ports, cluster_id: str, say: Say) -> Process:
    """Fetch what is missing, format `kafka_home`/data if it is new, and start the broker; it is not ready yet.

    Raises:
        JavaMissing, PochadeError: what is missing or went wrong, and what to do.
    """
    java, jars = prepare(kafka_home, say)
    if record.path(kafka_home).exists() and not _is_formatted(kafka_home):
        say(LOST.format(data=kafka_home / "data"))
    return launch(java, jars, kafka_home, properties(ports, str(kafka_home / "data")), cluster_id)


def launch(
    java: str, jars: pathlib.Path, folder: pathlib.Path, settings: Mapping[str, str], cluster_id: str
) -> Process:
    """Start a node with Kafka's own `settings`, on `folder`/data, formatted if it is new; it is not ready yet.

    Raises PochadeError: the data is in use, or could not be formatted.
    """
    _check_unused(folder)
    _write_settings(folder, settings)
    _format(java, jars, folder, cluster_id)
    return spawn(_run(java, jars, folder), folder / "broker.log")


def prepare(kafka_home: pathlib.Path, say: Say) -> tuple[str, pathlib.Path]:
    """The Java and the folder of jars to run with, fetched if they are missing; the caller holds the home's lock.

    Raises:
        JavaMissing, PochadeError: what is missing or went wrong, and what to do.
    """
    java = find_java()
    is_new = not jars_folder(kafka_home).is_dir()
    jars = fetch_jars(kafka_home, say)
    if is_new:
        say("preparing quick starts of the broker (a few seconds, once) ...")
        try:
            _archive_classes(java, jars)
        except PochadeError as failure:
            say(f"the broker will start slower, its class archive was not made: {failure}")
    return java, jars


def find_java() -> str:
    """The Java to run, `JAVA_HOME`'s first. Raises JavaMissing: none is found, or it is older than `JAVA_AT_LEAST`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(pathlib.Path(home, "bin"))) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise JavaMissing(f"no java on PATH or in JAVA_HOME: {INSTALL_HINT}")
    output = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < MIN_JAVA:
        got = version[1] if version else output.strip() or "no version"
        raise JavaMissing(f"Kafka needs Java {MIN_JAVA} or newer: {found} is {got}; {INSTALL_HINT}")
    return found


def jars_folder(kafka_home: pathlib.Path) -> pathlib.Path:
    """Return the folder of the jars, which may not exist yet; links are resolved, as the class archive stores paths."""
    return (kafka_home / f"libs-{KAFKA_VERSION}").resolve()


def fetch_jars(kafka_home: pathlib.Path, say: Say) -> pathlib.Path:
    """The folder of jars, downloaded if it is missing. It appears whole or not at all.

    Raises:
        JavaMissing: jars are missing and so is Maven.
        PochadeError: Maven failed; its last lines are in the message.
    """
    jars = jars_folder(kafka_home)
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissing(f"no mvn on PATH to fetch Apache Kafka {KAFKA_VERSION} with: {INSTALL_HINT}")
    say(f"fetching Apache Kafka {KAFKA_VERSION} from Maven's repository (44 MB, once) ...")
    part = jars.with_name(jars.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # of a fetch that was killed; the caller holds the folder's lock
    with importlib.resources.as_file(importlib.resources.files("infra") / "kafka" / "pom.xml") as pom:
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={part}", f"-Dkafka.version={KAFKA_VERSION}"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=FETCH_LIMIT_S)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[:6])
        raise PochadeError(
            f"Maven could not fetch Apache Kafka {KAFKA_VERSION} (exit {done.returncode}): check the network, or the "
            f"mirror and proxy in your Maven settings.xml, then run this again:\n{last}"
        )
    part.rename(jars)
    return jars


def _run(java: str, jars: pathlib.Path, kafka_home: pathlib.Path) -> list[str]:
    return command(java, jars, kafka_home, "kafka.Kafka", str(kafka_home / "server.properties"))


def _check_unused(kafka_home: pathlib.Path) -> None:
    """Refuse: before a second broker sees the first's lock, its controller has written into the first's log.

    It may then compute for ever instead of ending.
    """
    file = kafka_home / "data" / ".lock"
    users = " ".join(str(pid) for pid in _brokers(kafka_home))  # one that has just begun holds no lock yet
    if not users and not _is_locked(file):
        return
    who = f"process {users}" if users else "whose process is not seen from here"
    remedy = f"`kill {users}`" if users else "stop that one"
    raise PochadeError(f"the data in {file.parent} is in use by another broker ({who}): {remedy}, then start again")


def _is_locked(file: pathlib.Path) -> bool:
    if not file.exists():
        return False
    with file.open("r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock that Java takes
        except (BlockingIOError, PermissionError):  # both are allowed to say "held"
            return True
    return False


def _brokers(kafka_home: pathlib.Path) -> list[int]:
    settings = str(kafka_home / "server.properties")
    return [each.pid for each in psutil.process_iter(["cmdline"]) if settings in (each.info["cmdline"] or ())]


def _write_settings(kafka_home: pathlib.Path, settings: Mapping[str, str]) -> None:
    (kafka_home / "server.properties").write_text(render(settings))
    log4j = importlib.resources.files("infra") / "kafka" / "log4j2.properties"
    (kafka_home / "log4j2.properties").write_text(log4j.read_text())


def _format(java: str, jars: pathlib.Path, kafka_home: pathlib.Path, cluster_id: str) -> None:
    if _is_formatted(kafka_home):
        return
    arguments = ["format", "--ignore-formatted", f"--cluster-id={cluster_id}"]
    arguments += ["-c", str(kafka_home / "server.properties")]  # an id may begin with a dash: hence the `=`
    tool = command(java, jars, kafka_home, "kafka.tools.StorageTool", *arguments)
    done = subprocess.run(tool, capture_output=True, text=True, timeout=FORMAT_LIMIT_S)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:])
        raise PochadeError(f"Kafka could not format {kafka_home / 'data'} (exit {done.returncode}):\n{last}")


def _is_formatted(kafka_home: pathlib.Path) -> bool:
    return (kafka_home / "data" / "meta.properties").exists()  # the last file that formatting writes


def _archive_classes(java: str, jars: pathlib.Path) -> None:
    """Run a throwaway broker once and keep its loaded classes: later starts take 0.9 s instead of 2.0 s.

    A Java that differs from the one that wrote the archive ignores it; without it the broker only starts slower.
    """
    with tempfile.TemporaryDirectory(prefix="pochade-kafka-") as folder:
        home, ports = pathlib.Path(folder), free_ports()
        _write_settings(home, properties(ports, str(home / "data")))
        _format(java, jars, home, "AAAAAAAAAAAAAAAAAAAAAQ")
        part = jars / (ARCHIVE + ".part")
        run = _run(java, jars, home)
        process = spawn([run[0], f"-XX:ArchiveClassesAtExit={part}", *run[1:]], home / "broker.log")
        try:
            config = probe.starting_config(f"{HOST}:{ports.broker}")
            probe.probe(config, ARCHIVE_LIMIT_S, process.is_alive)
        finally:
            process.stop(ARCHIVE_LIMIT_S)
        if part.exists():
            part.rename(jars / ARCHIVE)
