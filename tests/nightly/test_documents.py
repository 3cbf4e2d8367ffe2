"""The AsyncAPI and OpenAPI documents against the schemas that their authors publish (from npm and PyPI).

Each tool is fetched into a folder of its own: neither is a dependency of the product or of its tests.
"""

import json
import pathlib
import subprocess
import sys
import tarfile

import jsonschema

from agents.gateway import openapi
from schemas import asyncapi
from schemas.asyncapi import ANY_VARIANT
from schemas.topics import TABLE, jobs_topic, waiting_topic

SPECS = "@asyncapi/specs@6.11.1"
VALIDATOR = "openapi-spec-validator==0.9.0"


def test_the_asyncapi_document_is_valid(tmp_path: pathlib.Path) -> None:
    packed = subprocess.run(
        ["npm", "pack", SPECS, "--silent"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=300
    )
    with tarfile.open(tmp_path / packed.stdout.split()[-1]) as archive:
        member = archive.extractfile(f"package/schemas/{asyncapi.VERSION}.json")
        assert member is not None
        schema = json.load(member)
    of_variants = jobs_topic(ANY_VARIANT, 4), waiting_topic(ANY_VARIANT)
    document = asyncapi.document((*TABLE, *of_variants), "pochade", "1.0", ["kafka-1:9092"])
    checked = jsonschema.validators.validator_for(schema)(schema)
    assert not [f"{list(error.path)}: {error.message[:200]}" for error in checked.iter_errors(document)]
    del document["channels"]["results.v1"]["address"], document["info"]["version"]
    assert not checked.is_valid(document)


def test_the_openapi_document_is_valid(tmp_path: pathlib.Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "site"), VALIDATOR]
    subprocess.run(install, check=True, timeout=600)
    for release, is_valid in (("1.0", True), (1, False)):
        file = tmp_path / f"{release}.json"
        document = openapi.document("1.0")
        document["info"]["version"] = release
        file.write_text(json.dumps(document))
        done = subprocess.run(
            [sys.executable, "-m", "openapi_spec_validator", str(file)], capture_output=True, text=True, check=False,
            env={"PYTHONPATH": str(tmp_path / "site")}, timeout=300,
        )  # fmt: skip
        assert (done.returncode == 0) is is_valid, done.stdout + done.stderr
