"""Kafka's jars from Maven Central, fetched once, and the Java that runs them."""

import importlib.resources
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable

from schemas.errors import PochadeError
from streams.broker.config import KAFKA_VERSION

Say = Callable[[str], None]

JAVA_AT_LEAST = 17
FETCH_LIMIT_S = 900
INSTALL_HINT = "install Java 17 and Maven (Debian, Ubuntu: openjdk-17-jre-headless maven; macOS: openjdk@17 maven)"


class JavaMissing(PochadeError):
    """No Java, a too old one, or no Maven: the message names the packages."""


def java() -> str:
    """The Java to run, `JAVA_HOME`'s first.

    Raises:
        JavaMissing: none is found, or it is older than `JAVA_AT_LEAST`.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(pathlib.Path(home, "bin"))) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise JavaMissing(f"no java on PATH or in JAVA_HOME: {INSTALL_HINT}")
    told = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        got = version[1] if version else told.strip() or "no version"
        raise JavaMissing(f"Kafka needs Java {JAVA_AT_LEAST} or newer: {found} is {got}; {INSTALL_HINT}")
    return found


def folder(kafka_home: pathlib.Path) -> pathlib.Path:
    """Where the jars are or will be; symbolic links resolved, since the class archive remembers paths."""
    return (kafka_home / f"libs-{KAFKA_VERSION}").resolve()


def class_path(jars: pathlib.Path) -> str:
    """All jars in one fixed order, which the class archive depends on."""
    return os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))


def fetch(kafka_home: pathlib.Path, say: Say) -> pathlib.Path:
    """The folder of jars, downloaded if it is missing. It appears whole or not at all.

    Raises:
        JavaMissing: jars are missing and so is Maven.
        PochadeError: Maven failed; its last lines are in the message.
    """
    jars = folder(kafka_home)
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
