"""A deployment on a broker that lets nobody in without TLS and a password, each role with a user and rights of its own.

Every command and role reads a TOML file; passwords lie in files that it names, and on no command line.
"""

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from replay.local.processes import role_process
from schemas.access import OPERATOR, ROLES, WHO
from schemas.errors import PochadeError
from schemas.record import Outgoing
from schemas.topics import ACTIONS, DLQ
from streams.broker import probe
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.security import acls
from streams.security.access_check import AccessDenied, check_access
from streams.security.acls import create_acls, principals
from tests.agents.console.deployment import field_in, token_in
from tests.certificates import Authority
from tests.integration.conftest import PROJECT_KAFKA
from tests.integration.receiver import Receiver, receiving
from tests.integration.secure_broker import ADMIN, ADMIN_PASSWORD, SecureBroker
from tests.integration.secured_deployment import PREFIX, Deployment
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

VARIANTS = ("heavy", "light")
COUNT = 4
STARTED_ANEW = "ledger"  # the others are forked, and have a command line of the server's


@pytest.fixture(scope="module")
def broker(new_home: Callable[[], pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    assert new_home()  # the jars are there
    started = SecureBroker(tmp_path_factory.mktemp("broker"), PROJECT_KAFKA)
    try:
        yield started.start()
    finally:
        started.stop()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        receiver.takes.set()
        yield receiver


@pytest.fixture(scope="module")
def deployment(
    broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[Deployment]:
    """Users with the rights that `topics acls` renders, topics made by the operator, and no process yet."""
    made = Deployment(broker, tmp_path_factory.mktemp("deployment"), receiver)
    passwords = {who: f"of-{who}-1" for who in WHO}
    broker.set_passwords(passwords)
    for who, password in {**passwords, ADMIN: ADMIN_PASSWORD}.items():
        made.add(who, password)
    named = [part for who in WHO for part in ("--principal", f"{who}=User:{who}")]
    applied = made.pochade(ADMIN, "topics", "acls", "--apply", *named)
    assert applied.exit_code == 0, applied.output
    variants = [part for variant in VARIANTS for part in ("--variant", variant)]
    poll_until(lambda: made.pochade(OPERATOR, "topics", "create", *variants).exit_code == 0, "topics by the operator")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def running(deployment: Deployment) -> Deployment:
    """All roles ready, each as a user of its own."""
    for role in ROLES:
        deployment.serve(role, is_forked=role != STARTED_ANEW)
    for role in ROLES:
        poll_until(lambda role=role: deployment.is_ready(role), f"{role} is ready")  # type: ignore[misc]
    return deployment


def test_each_role_generates_and_tells_webhooks_with_a_user_and_rights_of_its_own(
    running: Deployment, receiver: Receiver
) -> None:
    hook = {"input": {"prompt": "a red heart"}, "webhook": receiver.origin, "webhook_events_filter": ["completed"]}
    hooked = httpx.post(f"{running.address()}/v1/predictions", json=hook, timeout=PATIENCE_S, trust_env=False)
    assert hooked.status_code == 201, hooked.text
    assert running.ended(running.submitted(COUNT)) == ["COMPLETED"] * COUNT
    poll_until(lambda: receiver.taken, "a webhook by the gateway's user")
    ((_, told),) = receiver.taken
    assert (json.loads(told)["id"], json.loads(told)["status"]) == (hooked.json()["id"], "succeeded")

    pinned = running.pochade(OPERATOR, "plan", "pin", "clipper-light")
    assert pinned.exit_code == 0, pinned.output
    assert "leave no record" not in pinned.output  # the operator may write `actions`
    with running.console() as browser:
        token = {"token": token_in(browser.get("/try").text)}
        asked = browser.post("/requests", data={**token, "prompt": "a red heart"}, follow_redirects=True)
        assert "accepted" in asked.text, asked.text
        poll_until(lambda: "/plan/unpin" in browser.get("/plan").text, "the console has read that a policy is pinned")
        dry = browser.post("/plan/unpin", data=token)
        confirmation = {"confirmation": field_in(dry.text, "confirmation")}
        assert confirmation["confirmation"], dry.text
        unpinned = browser.post("/confirm", data={**token, **confirmation}, follow_redirects=True)
        assert "by joint is in force" in unpinned.text, unpinned.text
    cancelled = running.pochade(OPERATOR, "cancel", "never-sent", "--wait")
    assert (cancelled.exit_code, "CANCELLED" in cancelled.output) == (1, True), cancelled.output  # no such request
    audited = running.pochade(OPERATOR, "audit", "-o", "json")
    assert audited.exit_code == 0, audited.output
    examined = running.pochade(OPERATOR, "doctor", "-o", "jsonl")
    assert examined.exit_code == 0, examined.output
    # a client announces the schemas of its release where it may, which a mere producer may not
    denied = [line for line in running.broker.denials() if "User:producer" not in line or ".schemas.v1" not in line]
    assert not denied, "\n".join(denied)


def test_a_password_is_rotated_without_a_restart_of_the_cluster(running: Deployment) -> None:
    router = running.processes["router"]
    running.broker.set_passwords({"router": "of-router-2"})
    running.password_file("router").write_text("of-router-2\n")
    router.terminate()
    assert router.wait(60) == 0
    running.serve("router")
    poll_until(lambda: running.is_ready("router"), "the router is ready with its new password")
    assert running.ended(running.submitted(2)) == ["COMPLETED"] * 2


def test_a_password_stands_on_no_command_line_and_in_no_log(running: Deployment) -> None:
    words = [f"of-{who}-1".encode() for who in WHO]
    line = pathlib.Path(f"/proc/{running.processes[STARTED_ANEW].pid}/cmdline").read_bytes()
    for command in (line, *(" ".join(each).encode() for each in running.commands)):
        assert b"serve" in command
        assert not [word for word in words if word in command]
    for log in running.folder.glob("*.log"):
        assert not [word for word in words if word in log.read_bytes()], log


def test_a_command_with_a_wrong_password_ends_soon_and_says_what_to_do(deployment: Deployment) -> None:
    deployment.configure("stranger", deployment.broker.scram("ledger", "a-wrong-one"))
    for command in (["results"], ["watch", "--since", "1h"], ["plan", "show"], ["submit", "a red circle"]):
        done = deployment.pochade("stranger", *command)
        assert (done.exit_code, "sasl.password" in done.output) == (1, True), done.output


def test_a_command_without_a_right_names_it_soon(deployment: Deployment) -> None:
    done = deployment.pochade("producer", "results")
    assert done.exit_code == 1
    assert "this user may not read results.v1" in done.output


def test_a_role_with_a_wrong_password_ends_at_its_start_and_says_what_to_do(deployment: Deployment) -> None:
    deployment.configure("stranger", deployment.broker.scram("ledger", "a-wrong-one"))
    process = role_process("stranger", ["ledger"], ["--config", str(deployment.folder / "stranger.toml")], {})
    done = subprocess.run(process.command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "does not let us in" in done.stderr
    assert "sasl.password" in done.stderr
    assert "a-wrong-one" not in done.stderr
    assert "Traceback" not in done.stderr


def shown(broker: SecureBroker, kind: str, foreign: Authority) -> tuple[dict[str, str], str]:
    """Properties and listener of one who is not let in."""
    scram = broker.scram("ledger", "of-ledger-1")
    if kind == "password":
        return broker.scram("ledger", "a-wrong-one"), "SASL"
    if kind == "foreign":
        return {**scram, "ssl.ca.location": str(foreign.certificate)}, "SASL"
    if kind == "expired":
        return scram, "EXPIRED"
    own = {
        "own-expired": lambda: broker.authority.sign("client-old", valid_days=-1),
        "own-foreign": lambda: foreign.sign("client"),
    }
    if kind not in own:
        return broker.tls(), "MUTUAL"
    signed = own[kind]()
    files = {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
    return {**broker.tls(), **files}, "MUTUAL"


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        ("password", r"invalid credentials.*correct kafka\.properties\.sasl\.username and sasl\.password"),
        ("foreign", r"authority that is not trusted here.*set kafka\.properties\.ssl\.ca\.location"),
        ("expired", r"the brokers' certificate has expired: have the brokers' certificate renewed"),
        ("none", r"the brokers want a certificate of this client: set kafka\.properties\.ssl\.certificate\.location"),
        ("own-expired", r"this client's certificate .*client-old\.crt has expired: have it renewed"),
        ("own-foreign", r"client\.crt is of another authority than the brokers'.*have it signed by an authority"),
    ],
)
def test_who_is_not_let_in_reads_which_and_what_to_do(
    broker: SecureBroker, deployment: Deployment, tmp_path: pathlib.Path, kind: str, reported: str
) -> None:
    properties, listener = shown(broker, kind, Authority(tmp_path, "foreign"))
    with pytest.raises(probe.NotLetIn, match=reported):
        check_access(deployment.settings(properties, listener), ["ledger"], VARIANTS)


def test_a_client_with_a_certificate_of_the_brokers_authority_is_let_in(
    broker: SecureBroker, deployment: Deployment
) -> None:
    signed = broker.authority.sign("ledger")
    files = {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
    check_access(deployment.settings({**broker.tls(), **files}, "MUTUAL"), ["ledger"], VARIANTS)


@pytest.mark.parametrize(
    ("without", "reported"),
    [
        (lambda each: each.name.endswith("outcomes.v1"), "READ, WRITE on topic secured.outcomes.v1"),
        (lambda each: each.name == "secured.ledger", "ALTER_CONFIGS, READ on group secured.ledger"),
        (
            lambda each: each.resource is acls.Resource.TRANSACTIONAL_ID,
            "WRITE on transactional ids that begin with secured.ledger.",
        ),
    ],
)
def test_a_role_that_lacks_a_right_reads_which_and_the_command_that_prints_it(
    broker: SecureBroker, deployment: Deployment, without: Callable[[acls.Acl], bool], reported: str
) -> None:
    user = f"poor-{abs(hash(reported)) % 10_000}"
    broker.set_passwords({user: "poor"})
    rows = acls.acls(PREFIX, principals([f"ledger=User:{user}"], PREFIX), ["ledger"])
    create_acls(deployment.settings(broker.scram(ADMIN, ADMIN_PASSWORD)), [row for row in rows if not without(row)])
    settings = deployment.settings(broker.scram(user, "poor"))

    def refusal() -> str:
        try:
            check_access(settings, ["ledger"], VARIANTS)
        except AccessDenied as error:
            return str(error)
        except PochadeError:  # the user is new to the broker
            return ""
        pytest.fail("a missing right was not noticed")

    def only_that() -> str:
        text = refusal()
        return text if reported in text and ";" not in text else ""

    text = poll_until(only_that, f"only {reported!r} is missing")
    assert f"`pochade topics acls --role ledger --principal ledger=User:{user}`" in text


def test_a_topic_that_may_not_be_read_delays_no_other_and_is_read_once_it_may(
    broker: SecureBroker, deployment: Deployment
) -> None:
    broker.set_passwords({"half": "half"})
    admin = deployment.settings(broker.scram(ADMIN, ADMIN_PASSWORD))
    settings = deployment.settings(broker.scram("half", "half"))
    granted = acls.acls(PREFIX, principals(["console=User:half"], PREFIX), ["console"])
    of_actions = [row for row in granted if ACTIONS in row.name]
    create_acls(admin, [row for row in granted if row not in of_actions])
    heard, denied_heard = list[bytes | None](), list[bytes | None]()
    with contextlib.ExitStack() as stack:
        producer = KafkaRecordProducer(admin)
        stack.callback(producer.close)
        denied = TopicTailer(settings, [ACTIONS], lambda record: denied_heard.append(record.value))
        allowed = TopicTailer(settings, [DLQ], lambda record: heard.append(record.value))
        for each in (denied, allowed):
            stack.callback(each.start().close)
        allowed.wait_caught_up(PATIENCE_S)
        with pytest.raises(PochadeError, match="may not read"):
            denied.wait_caught_up(PATIENCE_S)
        send_all(producer, [Outgoing(topic=topic, key=b"k", value=b"1") for topic in (ACTIONS, DLQ)], PATIENCE_S)
        poll_until(lambda: b"1" in heard, "the record of the topic that may be read")
        assert not denied.is_caught_up.is_set()
        create_acls(admin, of_actions)
        poll_until(lambda: b"1" in denied_heard, "the record of the other topic")


@pytest.mark.usefixtures("deployment")
def test_the_rights_are_as_many_as_were_rendered(broker: SecureBroker) -> None:
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:router", None, AclOperation.ANY, AclPermissionType.ANY
    )
    client = AdminClient(broker.admin())  # must live until the answer is here
    found = client.describe_acls(everything).result(30)
    rows = acls.acls(PREFIX, principals(["router=User:router"], PREFIX), ["router"])
    assert len(found) == sum(len(row.operations) for row in rows)
