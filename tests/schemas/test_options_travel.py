"""An option is declared once: a copy of the tree to which `README.md`'s example is added has it at every door."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from pochade.requests import Options

from schemas.messages import GenerateOptions
from schemas.option_fields import options_of
from tests.paths import ROOT
from tests.schemas.option_table import DOCUMENT, document

STEP = re.compile(r"^\d\. .*?`([\w/]+\.py)`.*?```\w+\n\s*(.*?)\s*```", re.S | re.M)
CLIENT = {"seed", "quality", "tier", "tenant", "deadline_s", "request_id", "idempotency_key"}  # no options of images
GOLDEN = ROOT / "tests" / "schemas" / "golden.py"
END_OF_EXAMPLES = "        ),\n        start=1,\n"  # its line goes before that: ids are in the order of the file
PLACES = {  # file -> the line behind which the example's line goes
    "schemas/messages.py": 'anew.", placeholder="URI", honoured=True, needs="image")\n',
    "streams/client/pochade/requests.py": "    guidance: float\n",
    "tests/schemas/examples.py": END_OF_EXAMPLES,
}
DOORS = """
import asyncio, dataclasses, json
from click.testing import CliRunner
from agents.gateway.edits.forms import _read
from agents.gateway.openapi import edit_body, images_body, prediction_body
from planner.catalog.option_limits import check_options
from planner.catalog.options import resolve_options
from planner.reuse.eligibility import Asked, Refusal, storage_refusal
from planner.serving.routing.composing import fit_of
from schemas.asyncapi import document
from schemas.errors import InvalidRequest
from tests.schemas.option_table import document as table
from schemas.topics import PROMPTS, TABLE
from streams.cli import main
from streams.codec.avro import decode, encode
from streams.codec.prompt_file import request_of
from streams.commands.requests import fields_of
from streams.metrics import OPTIONS
from schemas.messages import GenerateOptions, GenerateRequest
from tests.builders import a_catalog, a_variant

request = request_of({"prompt": "a red heart", "guidance_rescale": 0.5}, 5)
assert request.options.guidance_rescale == 0.5
assert decode(encode(request), GenerateRequest) == request
try:
    check_options(dataclasses.replace(request, options=GenerateOptions(guidance_rescale=13)), 8)
except InvalidRequest as error:
    assert str(error).startswith("guidance_rescale must be from 0 to 1: got 13"), error
else:
    raise AssertionError("13 was taken")

shown = CliRunner().invoke(main, ["submit", "--help"]).output
assert "--guidance-rescale FLOAT RANGE" in shown and "[0<=x<=1]" in shown, shown
assert fields_of({"guidance_rescale": 0.5}) == {"guidance_rescale": 0.5}

stated = {"anyOf": [{"type": "number"}, {"type": "null"}], "minimum": 0, "maximum": 1, "default": None}
for body in (images_body(), edit_body(), prediction_body()["properties"]["input"]):
    assert stated.items() <= body["properties"]["guidance_rescale"].items()
assert "guidance_rescale" in json.dumps(document(TABLE, "p", "1", ["k:1"], is_tls=False))
assert asyncio.run(_read([("guidance_rescale", "0.5")])).fields == {"guidance_rescale": 0.5}

able, unable = a_variant(name="heavy", honours=("guidance_rescale",)), a_variant(name="light", honours=())
assert resolve_options(request.options, able).asked.guidance_rescale == 0.5
assert resolve_options(request.options, able).overridden == ()
assert resolve_options(request.options, unable).asked.guidance_rescale is None
assert resolve_options(request.options, unable).overridden == ("guidance_rescale: 0.5 -> none",)
strict = dataclasses.replace(request.options, strict=True)
assert "guidance_rescale: 0.5 -> none; leave it out" in fit_of(strict, "auto", a_catalog()).fault.reason
assert storage_refusal(Asked(options=request.options)) is Refusal.OPTION
assert "guidance_rescale" in OPTIONS and "`guidance_rescale`" in table()
"""


ENGINE = """
import dataclasses
from agents.engines.families import call_arguments
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from tests.builders import a_variant

class Pipeline:
    unet = object()
    def __call__(self, prompt, num_inference_steps, guidance_scale, guidance_rescale=0.0, callback_on_step_end=None):
        raise NotImplementedError

heavy = a_variant(name="heavy", honours=("guidance_rescale",))
plain, other = (
    call_arguments(Pipeline(), resolve_options(options, heavy), lambda *_: {}, ends_guidance=False)
    for options in (GenerateOptions(), GenerateOptions(guidance_rescale=0.7))
)
assert "guidance_rescale" not in plain and other["guidance_rescale"] == 0.7, (plain, other)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The rooms with the example's lines added, and the registry that its command writes."""
    tree = tmp_path_factory.mktemp("tree")
    for room in ("schemas", "planner", "streams", "agents", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "nightly")
        shutil.copytree(ROOT / room, tree / room, ignore=ignored, symlinks=True)
    (tree / "infra").symlink_to(ROOT / "infra")
    for file, line in example().items():
        text = (tree / file).read_text()
        indent = {"tests": 12}.get(file.partition("/")[0], 4)
        assert text.count(PLACES[file]) == 1, file
        parts = [PLACES[file], f"{indent * ' '}{line}\n"]
        (tree / file).write_text(
            text.replace(PLACES[file], "".join(parts[:: -1 if PLACES[file] is END_OF_EXAMPLES else 1]))
        )
    run(tree, "-m", "schemas.registry")
    run(tree, "-m", "tests.schemas.golden")
    return tree


def example() -> dict[str, str]:
    """File -> the line that the README adds to it."""
    section = (ROOT / "schemas" / "README.md").read_text().split("## To add an option")[1].split("\n## ")[0]
    steps = re.split(r"(?=^\d\. )", section, flags=re.M)
    return {found[1]: found[2] for step in steps if (found := STEP.match(step))}


def run(tree: pathlib.Path, *arguments: str) -> None:
    environment = {"PYTHONPATH": f"{tree}:{tree / 'streams' / 'client'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_names_at_most_three_files_of_the_product_beside_a_catalog_and_two_of_the_tests() -> None:
    assert example().keys() == PLACES.keys()
    written = {*example(), "schemas/registry.json", "tests/schemas/golden.py"}
    assert len([file for file in written if not file.startswith("tests/")]) <= 3
    assert len(written) <= 5


def test_the_commands_add_versions_and_their_golden_bytes_without_an_edit_by_hand(copy: pathlib.Path) -> None:
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/schemas/test_registry.py")
    assert (copy / "tests/schemas/golden.py").read_text().startswith(GOLDEN.read_text().partition("\n}\n")[0])


def test_an_id_without_an_example_gets_no_bytes_and_is_named() -> None:
    lacking = "from schemas import registry; registry.by_id = lambda: dict.fromkeys(range(1, 99)); "
    done = subprocess.run(
        [sys.executable, "-c", f"{lacking}from tests.schemas.golden import of_new_ids; of_new_ids()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.search(r"no example of the ids \[.*98\]; add them to EXAMPLE_OF", done.stderr)


def test_an_option_that_is_declared_is_at_every_door(copy: pathlib.Path) -> None:
    run(copy, "-c", DOORS)


def test_an_option_that_is_declared_is_an_argument_of_a_pipeline_that_takes_it(copy: pathlib.Path) -> None:
    run(copy, "-c", ENGINE)


def test_each_field_of_the_options_is_declared_and_typed_for_clients() -> None:
    declared = options_of(GenerateOptions)
    assert [*declared] == [*GenerateOptions.__dataclass_fields__]
    assert Options.__annotations__.keys() == declared.keys() | CLIENT


def test_the_table_of_the_options_is_what_they_declare() -> None:
    assert DOCUMENT.read_text() == document(), "python -m tests.schemas.option_table writes it"
