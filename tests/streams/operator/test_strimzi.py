"""The topic table and the rights, as objects of Strimzi."""

import json
import re

import yaml
from click.testing import CliRunner

from schemas.access import WHO
from schemas.topics import TABLE, table, topics_of
from streams.cli import main
from streams.operator.strimzi import objects
from streams.security.acls import acls, principals
from streams.settings import Kafka

KAFKA = Kafka(prefix="Art_1", flow_partitions=12, jobs_partitions=9)


def made(kafka: Kafka = KAFKA) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(each.removeprefix("---\n")) for each in objects(kafka, ["light"], "main", "tls")]


def test_each_topic_of_the_table_has_its_name_partitions_and_configuration() -> None:
    found = {each["spec"]["topicName"]: each["spec"] for each in made() if each["kind"] == "KafkaTopic"}
    wanted = [*table(12), *topics_of("light", 9)]
    assert set(found) == {f"Art_1.{row.name}" for row in wanted}
    assert len(wanted) == len(TABLE) + 2
    for row in wanted:
        assert found[f"Art_1.{row.name}"]["partitions"] == row.partitions
        assert found[f"Art_1.{row.name}"]["config"] == row.config


def test_each_user_has_the_rights_of_its_role_and_no_others() -> None:
    users = [each for each in made() if each["kind"] == "KafkaUser"]
    assert len(users) == len(WHO)
    for who, user in zip(WHO, users, strict=True):
        rows = acls("Art_1", principals((), "Art_1"), [who])
        rights = user["spec"]["authorization"]["acls"]
        assert [right["operations"] for right in rights] == [list(row.operations) for row in rows]
        named = [right["resource"].get("name", "kafka-cluster") for right in rights]
        assert named == [row.name for row in rows]
        is_prefix = [right["resource"].get("patternType") == "prefix" for right in rights]
        assert is_prefix == [row.pattern == "prefixed" for row in rows]
        assert user["spec"]["authentication"] == {"type": "tls"}


def test_names_are_such_as_kubernetes_takes_and_all_differ() -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in made()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) for _, name in names)


def test_the_command_prints_what_yaml_reads_for_the_variants_of_the_catalog() -> None:
    done = CliRunner().invoke(main, ["--set", "catalog=profile", "topics", "render", "strimzi", "--cluster", "main"])
    assert done.exit_code == 0, done.output
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert {each["metadata"]["labels"]["strimzi.io/cluster"] for each in found} == {"main"}
    assert {"pochade.jobs.light.v1", "pochade.waiting.heavy.v1"} <= {each["metadata"]["name"] for each in found}
