"""A broker that lets nobody in without TLS: SCRAM, PLAIN or a certificate, and rights by ACLs alone.

Listeners: SASL and EXPIRED (the same with a certificate that has expired), MUTUAL (clients show a certificate), and on
request OPEN (PLAINTEXT, to compare with). Started from the embedded broker's jars, on data and ports of its own.
"""

import importlib.resources
import pathlib
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from streams.broker import java as broker_java
from streams.broker import probe
from streams.broker.config import properties, render
from streams.broker.node import HOST, free_ports
from streams.kafka.clients import config_of
from streams.processes.children import Child, spawn
from tests.certificates import Authority
from tests.patience import PATIENCE_S

ADMIN, ADMIN_PASSWORD = "admin", "of-the-admin"
BROKER_PASSWORD = "of-the-broker"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
FORMAT_LIMIT_S = 120

DENIALS = """
logger.authorizer.name=kafka.authorizer.logger
logger.authorizer.level=info
"""


@dataclass
class SecureBroker:
    """`start`, then `address` of a listener; `stop` in the end."""

    folder: pathlib.Path
    kafka_home: pathlib.Path  # where the embedded broker's jars lie
    plain_users: Mapping[str, str] = field(default_factory=dict)  # name -> password, for PLAIN
    extra: Mapping[str, str] = field(default_factory=dict)  # of the broker's own settings
    is_open: bool = False  # a PLAINTEXT listener besides
    mechanisms: Sequence[str] = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    jvm: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.authority = Authority(self.folder)
        self.log = self.folder / "broker.log"
        names = ["SASL", "EXPIRED", "MUTUAL", "CONTROLLER", *(["OPEN"] if self.is_open else [])]
        self._ports = dict(zip(names, _free(len(names)), strict=True))
        self._process: Child | None = None

    def start(self) -> "SecureBroker":
        """Format, start and wait until the admin is let in."""
        java, jars = broker_java.prepare(self.kafka_home, print)
        log4j = (importlib.resources.files("infra") / "kafka" / "log4j2.properties").read_text()
        (self.folder / "log4j2.properties").write_text(log4j + DENIALS)
        settings = self.folder / "server.properties"
        settings.write_text(render(self._settings()))
        arguments = ["format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(settings)]
        for name, password in ((ADMIN, ADMIN_PASSWORD), ("broker", BROKER_PASSWORD)):
            arguments += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        tool = broker_java.command(java, jars, self.folder, "kafka.tools.StorageTool", *arguments)
        done = subprocess.run(tool, capture_output=True, text=True, timeout=FORMAT_LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        run = broker_java.command(java, jars, self.folder, "kafka.Kafka", str(settings))
        self._process = process = spawn([run[0], *self.jvm, *run[1:]], self.log)
        probe.probe(self.admin(), PATIENCE_S, is_alive=lambda: process.poll() is None)
        return self

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def address(self, listener: str = "SASL") -> str:
        """Where a listener is."""
        return f"{HOST}:{self._ports[listener]}"

    def tls(self) -> dict[str, str]:
        """Properties of a client that trusts this broker."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.certificate)}

    def scram(self, name: str, password: str) -> dict[str, str]:
        """Properties of a SCRAM user."""
        user = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name, "sasl.password": password}
        return {**self.tls(), "security.protocol": "SASL_SSL", **user}

    def admin(self) -> dict[str, str]:
        """librdkafka's configuration of the superuser."""
        return config_of(self.address(), self.scram(ADMIN, ADMIN_PASSWORD))

    def set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Create SCRAM users, or change their passwords."""
        client = AdminClient(self.admin())  # must live until the answers are here
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = [UserScramCredentialUpsertion(name, info, word.encode()) for name, word in passwords.items()]
        for future in client.alter_user_scram_credentials(wanted).values():
            future.result(PATIENCE_S)

    def denials(self) -> list[str]:
        """What the authorizer refused so far."""
        return [
            line for line in self.log.read_text().splitlines() if " is Denied " in line or "Denied operation" in line
        ]

    def _settings(self) -> dict[str, str]:
        good, old = self.authority.sign("broker"), self.authority.sign("expired", valid_days=-1)
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self._ports.items())
        protocols = {"SASL": "SASL_SSL", "EXPIRED": "SASL_SSL", "MUTUAL": "SSL", "CONTROLLER": "SASL_SSL"}
        protocols |= {"OPEN": "PLAINTEXT"} if self.is_open else {}
        users = "".join(f' user_{name}="{password}"' for name, password in self.plain_users.items())
        own = {
            "listeners": listeners,
            "advertised.listeners": ",".join(part for part in listeners.split(",") if "CONTROLLER" not in part),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "SASL",
            "controller.quorum.voters": f"1@{HOST}:{self._ports['CONTROLLER']}",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{PLAIN} username="broker" password="{BROKER_PASSWORD}" user_broker="{BROKER_PASSWORD}";'
            ),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(good.both),
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": str(old.both),
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:broker;User:{ADMIN}" + (";User:ANONYMOUS" if self.is_open else ""),
            "allow.everyone.if.no.acl.found": "false",
        }
        for listener in ("sasl", "expired"):
            own[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            for mechanism in ("scram-sha-512", "scram-sha-256"):
                own[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = (
                    f'{SCRAM} username="broker" password="{BROKER_PASSWORD}";'
                )
            own[f"listener.name.{listener}.plain.sasl.jaas.config"] = (
                f'{PLAIN} username="broker" password="{BROKER_PASSWORD}"{users};'
            )
        return properties(free_ports(), str(self.folder / "data")) | own | self.extra


def _free(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind((HOST, 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
