"""Maps `[kafka.properties]` to a client that is not librdkafka: Faust's aiokafka, which three roles use.

A pure mapping of librdkafka's names to values. Each name is in one of three tables: it has a counterpart, it concerns
librdkafka's clients alone, or a role that uses Faust refuses it at start. A name in none of them is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.errors import PochadeError
from streams.kafka.clients import CLIENT_ID

FAUST_ROLES = frozenset({"classifier", "router", "discriminator"})  # read by aiokafka, which Faust builds on

IDLE_MS = 540_000  # until an unused connection is closed: aiokafka's own default
FETCHED_BYTES = 1_048_576  # of one partition at once: librdkafka's own default

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS = (SCRAM_512, SCRAM_256, PLAIN, OAUTHBEARER)
FOREIGN_MECHANISMS = ("GSSAPI", "AWS_MSK_IAM")

# librdkafka's second names for the same property
ALIASES = {
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
}

COUNTERPARTS = frozenset(
    {
        "bootstrap.servers", "security.protocol", "client.id", "connections.max.idle.ms", "fetch.message.max.bytes",
        "check.crcs", "sasl.mechanisms", "sasl.username", "sasl.password",
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "ssl.key.password", "ssl.cipher.suites", "ssl.crl.location",
        "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.grant.type", "https.ca.location", "https.ca.pem",
    }
)  # fmt: skip

# They change how librdkafka's own clients work (all writing, and reading in the other roles), not whether anybody
# connects or what is read: aiokafka goes by its defaults
OF_LIBRDKAFKA_ALONE = frozenset(
    {
        # writing: every role writes through librdkafka
        "batch.num.messages", "compression.codec", "compression.level", "compression.type",
        "delivery.report.only.error", "delivery.timeout.ms", "message.timeout.ms",
        "enable.gapless.guarantee", "linger.ms", "max.in.flight",
        "max.in.flight.requests.per.connection", "message.copy.max.bytes", "message.max.bytes",
        "message.send.max.retries", "retries", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes",
        "queue.buffering.max.messages", "queuing.strategy", "request.timeout.ms", "sticky.partitioning.linger.ms",
        # waiting, buffers and logs of its own
        "api.version.request.timeout.ms", "broker.address.ttl", "coordinator.query.interval.ms", "debug",
        "enable.metrics.push", "enable.random.seed", "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.min.bytes",
        "fetch.queue.backoff.ms", "log.connection.close", "log.queue", "log.thread.name",
        "log_level", "max.poll.interval.ms", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy", "queued.max.messages.kbytes", "queued.min.messages",
        "receive.message.max.bytes", "reconnect.backoff.jitter.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "retry.backoff.max.ms", "retry.backoff.ms", "socket.blocking.max.ms",
        "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable",
        "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms", "statistics.interval.ms",
        "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)  # fmt: skip

OWN = "the roles set it themselves: leave it out"
IN_PEM = "give the certificate and key in PEM: ssl.certificate.location and ssl.key.location"
BY_PASSWORD = f"use a listener with {', '.join(MECHANISMS)}, or one with TLS certificates of clients"
DECIDED = {  # name, or the beginning of several -> what to do instead; refused for every role
    "group.protocol": "set kafka.group_protocol",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "queue.buffering.max.ms": "set linger.ms, which is the same",
    "session.timeout.ms": "set kafka.session_timeout_ms",
    **dict.fromkeys((
        "acks", "auto.", "batch.size", "enable.auto.", "enable.idempotence", "enable.partition.eof",
        "fetch.wait.max.ms", "group.", "heartbeat.interval.ms", "isolation.level", "max.poll.records", "offset.",
        "partition", "request.required.acks", "share.", "transaction",
    ), OWN),
}  # fmt: skip
REFUSED = {  # the same, of what Faust cannot follow
    "ssl.keystore.": IN_PEM,
    "ssl.engine.": IN_PEM,
    "ssl.providers": IN_PEM,
    "ssl.ca.certificate.stores": "name the authority in ssl.ca.location",
    "ssl.curves.list": "leave it out, or restrict it at the brokers",
    "ssl.sigalgs.list": "leave it out, or restrict it at the brokers",
    "sasl.kerberos.": BY_PASSWORD,
    "sasl.oauthbearer.config": "set sasl.oauthbearer.method=oidc and the identity provider's address",
    "enable.sasl.oauthbearer.unsecure.jwt": "set sasl.oauthbearer.method=oidc and the identity provider's address",
    "sasl.oauthbearer.assertion.": "use sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.metadata.": "use sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.sub.": "leave it out: the brokers say which claim names the user",
    "broker.address.family": "let the brokers advertise addresses of the family that clients should use",
    "client.dns.lookup": "let the brokers advertise the names that clients should use",
    "client.rack": "leave it out: these roles read from partitions' leaders",
    "plugin.library.paths": "leave it out: a plugin sees librdkafka's clients only",
}


class Unmapped(PochadeError):
    """A property that the roles, or those with Faust, cannot follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings: the authorities that brokers are checked against, and our own certificate."""

    ca_file: str = ""  # file or folder; "": what the system trusts
    ca_pem: str = ""
    certificate_file: str = ""  # of ours, under mutual TLS
    certificate_pem: str = ""
    key_file: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    ciphers: str = ""
    revoked_file: str = ""
    verifies: bool = True
    checks_names: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """Settings of the OAuth 2 client credentials grant, from which tokens come."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_file: str = ""
    ca_pem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security settings that a client of any library connects with."""

    protocol: str = PLAINTEXT
    mechanism: str = ""  # "": no SASL
    username: str = ""
    password: str = field(default="", repr=False)
    tls: Tls | None = None
    oidc: Oidc | None = None
    client_id: str = CLIENT_ID
    idle_ms: int = IDLE_MS
    most_fetched_bytes: int = FETCHED_BYTES
    checks_crcs: bool = True


def security_of(properties: Mapping[str, str]) -> Security:
    """The security that these properties of librdkafka describe, secrets already read from their files.

    Raises:
        Unmapped: a property, named, that has no counterpart, or a value that has none, and what to do; never a value
            that may be secret.
    """
    given = {ALIASES.get(name, name): value for name, value in properties.items()}
    for name in sorted(given.keys() - COUNTERPARTS - OF_LIBRDKAFKA_ALONE):
        do = _instead(REFUSED, name) or "leave it out"
        raise _unmapped(name, f"it has no counterpart in their Kafka client; {do}")
    protocol = given.get("security.protocol", PLAINTEXT).upper()
    mechanism = _mechanism(given) if protocol in (SASL_PLAINTEXT, SASL_SSL) else ""
    return Security(
        protocol=protocol,
        mechanism=mechanism,
        username=given.get("sasl.username", ""),
        password=given.get("sasl.password", ""),
        tls=_tls(given) if protocol in (SSL, SASL_SSL) else None,
        oidc=_oidc(given) if mechanism == OAUTHBEARER else None,
        client_id=given.get("client.id", CLIENT_ID),
        idle_ms=int(given.get("connections.max.idle.ms", "0")) or IDLE_MS,  # 0: librdkafka's word for its default
        most_fetched_bytes=int(given.get("fetch.message.max.bytes", str(FETCHED_BYTES))),
        checks_crcs=given.get("check.crcs", "true").lower() == "true",
    )


def refuse_decided(names: Iterable[str]) -> None:
    """Raise Unmapped: the roles set one of these properties by themselves."""
    for name in names:
        if do := _instead(DECIDED, name):
            raise Unmapped(f"kafka.properties.{name}: {do}")


def _instead(table: Mapping[str, str], name: str) -> str:
    return next((do for start, do in table.items() if name.startswith(start)), "")


def _unmapped(name: str, why: str) -> Unmapped:
    return Unmapped(f"kafka.properties.{name}: {', '.join(sorted(FAUST_ROLES))} cannot follow it: {why}")


def _mechanism(given: Mapping[str, str]) -> str:
    mechanism = given.get("sasl.mechanisms", "GSSAPI").upper()  # librdkafka's default
    if mechanism not in MECHANISMS:
        named = mechanism if mechanism in FOREIGN_MECHANISMS else "it"  # whatever else stands there may be a secret
        raise _unmapped("sasl.mechanism", f"{named} is not among {', '.join(MECHANISMS)}; {BY_PASSWORD}")
    for name in ("sasl.username", "sasl.password") if mechanism != OAUTHBEARER else ():
        if not given.get(name):
            raise _unmapped("sasl.mechanism", f"{mechanism} needs {name}, which is not set")
    return mechanism


def _tls(given: Mapping[str, str]) -> Tls:
    ca_file = given.get("ssl.ca.location", "")
    return Tls(
        ca_file="" if ca_file == "probe" else ca_file,  # "probe": librdkafka's word for what the system trusts
        ca_pem=given.get("ssl.ca.pem", ""),
        certificate_file=given.get("ssl.certificate.location", ""),
        certificate_pem=given.get("ssl.certificate.pem", ""),
        key_file=given.get("ssl.key.location", ""),
        key_pem=given.get("ssl.key.pem", ""),
        key_password=given.get("ssl.key.password", ""),
        ciphers=given.get("ssl.cipher.suites", ""),
        revoked_file=given.get("ssl.crl.location", ""),
        verifies=given.get("enable.ssl.certificate.verification", "true").lower() == "true",
        checks_names=given.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
    )


def _oidc(given: Mapping[str, str]) -> Oidc:
    if given.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        raise _unmapped("sasl.oauthbearer.method", "only tokens of an identity provider are: set it to oidc")
    grant = given.get("sasl.oauthbearer.grant.type", "client_credentials")
    if grant != "client_credentials":
        raise _unmapped("sasl.oauthbearer.grant.type", "only client_credentials is followed")
    for name in ("token.endpoint.url", "client.id", "client.secret"):
        if not given.get(f"sasl.oauthbearer.{name}"):
            raise _unmapped("sasl.oauthbearer.method", f"oidc needs sasl.oauthbearer.{name}, which is not set")
    return Oidc(
        token_url=given["sasl.oauthbearer.token.endpoint.url"],
        client_id=given["sasl.oauthbearer.client.id"],
        client_secret=given["sasl.oauthbearer.client.secret"],
        scope=given.get("sasl.oauthbearer.scope", ""),
        extensions=_extensions(given.get("sasl.oauthbearer.extensions", "")),
        ca_file=given.get("https.ca.location", ""),
        ca_pem=given.get("https.ca.pem", ""),
    )


def _extensions(text: str) -> dict[str, str]:
    """`logicalCluster=lkc-1,identityPoolId=pool-2`, as Confluent Cloud wants them."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}
