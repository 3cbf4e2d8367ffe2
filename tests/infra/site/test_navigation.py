"""The site as a reader meets it: titles, doors, questions, commands that run, and tables that are whole."""

import inspect
import pathlib
import re
import tomllib

from agents.gateway.refusals import KINDS
from infra.site import build, pages
from infra.site.reference import commands, errors, settings
from schemas.messages import Status
from streams.settings import Gateway, Settings
from tests.paths import ROOT

FIRST, QUESTIONS = "infra/site/index.md", "infra/site/questions.md"
ANSWERS = {  # words of a question -> a page, a heading of it, and what stands below that
    "container images": ("infra/chart/README.md", "", "helm install"),
    "package for clients": ("streams/client/README.md", "", "pip install pochade-client"),
    "is there a release": ("README.md", "install-what-you-use", "pochade-client"),
    "how do i upgrade": (".github/CONTRIBUTING.md", "versions", "three months"),
    "do harm": ("SECURITY.md", "how-to-report-a-fault", "private security advisory"),
    "sdxl or flux": ("agents/engines/OWN_MODELS.md", "", "flux"),
    "windows": (".github/CONTRIBUTING.md", "versions", "Windows"),
    "cost, by tenant": ("streams/operator/OPERATING.md", "what-it-costs", "tenant"),
    "developer ask for": ("schemas/OPTIONS.md", "", "negative_prompt"),
    "at night": ("streams/operator/RUNBOOK.md", "", "PochadeNoPlanner"),
    "who supports it": (".github/CONTRIBUTING.md", "", "How to contribute"),
    "compare": ("replay/bench/peers/COMPARISON.md", "", "Ray Serve"),
}
RUN = {  # page with commands to run -> the test that runs its blocks of bash
    "infra/site/tutorial.md": "tests/nightly/test_site.py",
    "README.md": "tests/integration/test_readme.py",
    "agents/engines/OWN_MODELS.md": "tests/nightly/test_own_models.py",
    "agents/models/OWN_JUDGES.md": "tests/agents/learning/test_learning.py",
    "streams/operator/OPERATING.md": "tests/nightly/test_operating.py",
    "streams/operator/UPGRADE.md": "tests/nightly/test_operating.py",
    "streams/operator/RESTORE.md": "tests/nightly/test_restore.py",
    "replay/BEFORE_A_CHANGE.md": "tests/nightly/test_operating.py",
    "streams/security/README.md": "tests/streams/security/test_extensions.py",
    "agents/features/RECEIPTS.md": "tests/agents/features/test_receipts.py",
}
NOT_RUN = {  # page -> how each of its blocks of `text` or `sh` begins -> why no test runs it as it stands
    "README.md": {"accepted": "what a run prints", "prompts ─►": "a drawing"},
    "agents/engines/CUDA.md": {"python -m": "needs a card of 80 GB", "git sparse-checkout": "changes the checkout"},
    "agents/engines/OWN_MODELS.md": {
        "pochade profile": "fetches a CLIP model; tests/agents/profiling runs the command"
    },
    "agents/features/RECEIPTS.md": {"pochade verify": "its images are others'; tests/agents/features/test_receipts.py"},
    "agents/gateway/README.md": {"KEY=$(": "needs a gateway with keys: the part http_clients"},
    "agents/models/OWN_JUDGES.md": {"pochade learn --follow": "does not end; tests/agents/learning runs the command"},
    "infra/chart/README.md": {"helm install": "needs a cluster: the part cluster", "pochade --set": "the same"},
    "infra/images/README.md": {"infra/bin/build-image": "minutes: the part images", "openssl": "needs a built image"},
    "infra/site/tutorial.md": {"make demo": "tests/integration/test_demo.py and test_readme.py"},
    "replay/BEFORE_A_CHANGE.md": {
        "policy  metric": "what a comparison prints",
        "as it went  under plan 1": "what an estimate prints",
        "pochade simulate": "minutes for a second answer; tests/replay runs the command",
        "pochade replay run": "minutes in real time; tests/integration/test_replay.py runs the command",
    },
    "streams/operator/OPERATING.md": {
        "echo": "needs kcat",
        "pochade components": "needs a bucket: tests/integration/test_s3.py",
        "pochade --set kafka": "needs eight cards: tests/replay/local/test_scaling.py",
        "CUDA_VISIBLE_DEVICES": "needs four cards",
        "pochade results": "needs jq",
    },
    "streams/operator/PROMISE.md": {"pochade audit": "hours of faults: make nightly PART=lab"},
    "streams/operator/RESTORE.md": {
        "fail ": "what doctor says: the part restore compares it",
        "warn ": "the same",
        "kafka-storage.sh": "needs a cluster of brokers",
    },
    "streams/operator/UPGRADE.md": {"pochade topics acls": "needs a cluster with rights: test_secured.py"},
    "streams/security/README.md": {
        "pochade --config": "needs a cluster with rights: tests/integration/test_secured.py"
    },
}
BLOCK = re.compile(r"^ *```(bash|sh|text)\n(.*?)^ *```", re.M | re.S)


def titled() -> dict[str, str]:
    """Path -> title of the navigation."""
    found, waiting = {}, [tomllib.loads((ROOT / "infra/site/zensical.toml").read_text())["project"]["nav"]]
    while waiting:
        for each in waiting.pop():
            for title, part in each.items():
                if isinstance(part, str):
                    found[part] = title
                else:
                    waiting.append(part)
    return found


def reached(page: str) -> set[str]:
    """The pages of the repository that a page links to."""
    return {target.path for target in pages.links((ROOT / page).read_text(), page)}


def test_each_page_of_the_navigation_is_there_and_its_title_is_no_file_name() -> None:
    missing = [path for path in titled() if not (ROOT / path).is_file()]
    assert not missing
    assert not [title for title in titled().values() if re.search(r"[_/]|\.md|README|[A-Z]{5}", title)]


def test_the_first_page_has_two_sentences_one_image_and_three_doors() -> None:
    text = (ROOT / FIRST).read_text()
    about = text.split("\n\n")[1]
    assert len(re.findall(r"[.](?:\s|$)", about)) == 2
    assert text.count("![") == 1
    doors = re.split(r"^## ", text, flags=re.M)[1:]
    assert [door.splitlines()[0] for door in doors] == ["Developer", "Operator", "Team lead"]
    assert all(4 <= door.count("\n- [") <= 6 for door in doors)


def test_each_of_the_twelve_questions_is_answered_within_two_links_of_the_first_page() -> None:
    rows = [line for line in (ROOT / QUESTIONS).read_text().splitlines() if line.startswith("| ") and "[" in line]
    assert len(rows) == len(ANSWERS) == 12
    assert QUESTIONS in reached(FIRST)
    for asked, (page, heading, said) in ANSWERS.items():
        (row,) = [row for row in rows if asked in row.split("|")[1].lower()]
        targets = list(pages.links(row, QUESTIONS))
        assert page in {target.path for target in targets}, asked
        assert not heading or (page, f"#{heading}") in targets, asked
        assert said in below(page, heading), asked


def below(page: str, heading: str) -> str:
    """What stands below a heading of a page, until the next of its kind; all of the page without one."""
    text = (ROOT / page).read_text()
    sections = re.split(r"^## ", text, flags=re.M)
    named = [each for each in sections if each.splitlines()[0].lower().replace(" ", "-") == heading]
    return named[0] if heading else text


def test_each_console_block_of_the_navigation_runs_in_a_test_or_it_is_said_why_not() -> None:
    blocks = [
        (page, kind, text.lstrip()) for page in titled() for kind, text in BLOCK.findall((ROOT / page).read_text())
    ]
    assert {page for page, kind, _ in blocks if kind == "bash"} == RUN.keys()
    for page, test in RUN.items():
        source = (ROOT / test).read_text() + (ROOT / "tests/integration/pages.py").read_text()
        assert page.rpartition("/")[2] in source, f"{test} names {page} no more"
    others = [(page, text) for page, kind, text in blocks if kind != "bash"]
    unsaid = [(page, text[:60]) for page, text in others if not text.startswith(tuple(NOT_RUN.get(page, ())))]
    assert not unsaid
    gone = [(page, begins) for page, said in NOT_RUN.items() for begins in said if not any(
        where == page and text.startswith(begins) for where, text in others
    )]  # fmt: skip
    assert not gone


def test_the_words_of_the_errors_page_are_of_the_codes_that_there_are() -> None:
    assert errors.MEANINGS.keys() == KINDS.keys()
    assert errors.STATUSES.keys() == {status.value for status in Status}


def test_the_settings_page_has_each_setting_with_the_comment_beside_it() -> None:
    said = settings.comments(inspect.getsource(Gateway))
    assert said["tls_key"] == "PEM file with its private key"
    assert said["wait_s"].startswith("until a request for images is answered; it is its deadline")
    page = settings.body()
    for name in ("kafka.prefix", "tenants.NAME.rate_rps", "worker.components.remote", "planner.scale.max_by_tenant"):
        assert f"| `{name}` |" in page
    assert page.count("\n| `") >= len(Settings.model_fields)
    bare = [line for line in page.splitlines() if line.startswith("| `") and line.rstrip().endswith("|  |")]
    assert not bare, "a setting without a comment"


def test_the_commands_page_has_groups_options_and_examples() -> None:
    page = commands.body()
    assert "### pochade submit\n" in page
    assert "#### pochade plan pin\n" in page
    assert (
        "| `--quality [low|medium|high|auto]` |".replace("|m", "\\|m").replace("|h", "\\|h").replace("|a", "\\|a")
        in page
    )


def test_what_is_linked_is_on_the_site_where_no_other_page_is(tmp_path: pathlib.Path) -> None:
    texts = build.texts()
    assert set(titled()) <= texts.keys()
    places = [pages.place(path) for path in texts]
    assert len(places) == len(set(places))
    linked = {t.path for path, text in texts.items() if path.endswith(".md") for t in pages.links(text, path)}
    assert not {path for path in linked - texts.keys() if (ROOT / path).is_file()}
    build.write(texts, tmp_path / "site")
    settled = re.findall(r'"([^"]+\.md)"', (tmp_path / "site" / "zensical.toml").read_text())
    assert len(settled) == len(titled())
    assert all((tmp_path / "site" / "pages" / path).is_file() for path in [*settled, *places])
