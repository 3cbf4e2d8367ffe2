"""`pochade learn`: from prompts and a scorer to judges that are promoted, or not, for what they are worth."""

import contextlib
import csv
import json
import math
import pathlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from agents.classifier.judges import open_judge
from agents.commands.learn import learn
from agents.learning import kinds
from agents.learning.discriminators.network import fit_network
from agents.learning.kinds import Fitting
from agents.learning.learning import Asked, figures, parts_of, worth_of
from agents.learning.prompts import seeded
from agents.learning.retraining import retrain
from agents.learning.times import stale_times
from agents.profiling.generation.orders import GeneratedImages, generate_into
from agents.profiling.generation.quality import Score
from agents.profiling.run import run as profile
from schemas.errors import PochadeError
from streams import catalogs
from streams.cli import LazySettings
from streams.parsing.catalog import parse
from streams.shipped import MODELS
from tests.agents.learning.discriminators.planted import drafts
from tests.integration.pages import blocks

pytestmark = pytest.mark.torch

LEVEL = """
[variants.{name}]
engine = "profile"
model = ""
scheduler = ""
steps = {steps}
guidance = 1.0
width = 32
height = 32
latency_ms = {{ 1 = {ms} }}
load_ms = 1
"""
CATALOG = "# mine\n" + LEVEL.format(name="quick", steps=1, ms=0.02) + LEVEL.format(name="good", steps=3, ms=1)
SUBJECTS = ("a cat", "a boat", "a lamp", "two trees", "an old door", "a bridge", "a red chair", "a bowl of fruit")
PLACES = ("in the rain", "at night", "on a hill", "by the sea", "in a garden", "under a bridge")
HARD = ("holding a written sign", "with seven fingers", "reflected in a mirror")


def prompts_of(count: int) -> list[str]:
    """Half of them ask for what the quick level cannot do."""
    draws = random.Random(3)
    found = dict[str, None]()
    while len(found) < count:
        hard = [draws.choice(HARD)] if draws.random() < 0.5 else []
        found[" ".join([draws.choice(SUBJECTS), *hard, draws.choice(PLACES), f"number {len(found)}"])] = None
    return list(found)


def is_hard(prompt: str) -> bool:
    return any(words in prompt for words in HARD)


def label(table: pathlib.Path, right: Callable[[str, str], int]) -> None:
    """Fill in the table as people would. `right`: of prompt and level."""
    with table.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["right"] for row in rows} == {""}
    with table.open("w", newline="") as out:
        written = csv.DictWriter(out, list(rows[0]))
        written.writeheader()
        written.writerows({**row, "right": right(row["prompt"], row["level"])} for row in rows)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(learn, [*arguments, "--jobs", "1"], obj=LazySettings({}, None))


@contextlib.contextmanager
def folder_of(folder: pathlib.Path, prompts: Sequence[str]) -> Iterator[pathlib.Path]:
    """A working folder with a catalog and a list of prompts."""
    with contextlib.chdir(folder):
        pathlib.Path("catalog.toml").write_text(CATALOG)
        pathlib.Path("prompts.txt").write_text("\n".join(prompts))
        yield folder


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Result]:
    """The folder and the output of the commands of the page; one label in ten is wrong."""
    to_label, to_learn, to_plan = [block.split() for block in blocks("agents/models/OWN_JUDGES.md")]
    assert [to_label[:2], to_learn[:2], to_plan[:3]] == [["pochade", "learn"]] * 2 + [["pochade", "plan", "solve"]]
    with folder_of(tmp_path_factory.mktemp("page"), prompts_of(300)) as folder:
        assert run(*to_label[2:]).exit_code == 0
        draws = random.Random(5)
        right = {"quick": lambda prompt: not is_hard(prompt), "good": lambda _prompt: True}
        label(folder / "to-label" / "labels.csv", lambda text, level: int(right[level](text) != (draws.random() < 0.1)))
        return folder, run(*to_learn[2:])


def test_the_page_leads_from_a_catalog_without_evidence_to_a_promoted_pair(
    learned: tuple[pathlib.Path, Result],
) -> None:
    folder, said = learned
    assert said.exit_code == 0, said.output
    assert "not promoted" not in said.output
    figures = json.loads((folder / "learned" / "learned.json").read_text())
    assert figures["classifier"]["low"] > 0
    assert figures["discriminator"]["low"] > 0
    assert "recovers" in (folder / "learned" / "README.md").read_text()
    catalog = catalogs.measured(str(folder / "learned" / "catalog.toml"))
    assert (catalog.pair().light, catalog.pair().heavy, catalog.pair().discriminator) == ("quick", "good", "learned")
    assert catalog.measured is not None
    assert sum(catalog.measured.prompts) == len(parts_of(300, 1).test)
    assert (folder / "learned" / "catalog.toml").read_text().startswith("# mine")
    wanted = r"quick: an image in calls of 16 took (\S+) ms, and by the catalog's latency_ms it takes (\S+) ms"
    noted = re.findall(wanted, said.output)
    assert [float(given) for _taken, given in noted] == [0.02]  # of which no card is drawn
    again = "`pochade profile --catalog catalog.toml --out . --no-quality --write`"
    for text in (said.output, (folder / "learned" / "README.md").read_text()):
        assert again in text
        assert noted[0][0] in text
    promised = {each.discriminator: each for each in catalog.guarantees if each.level in ("quick", "good")}
    assert set(promised) == {"", "learned"}
    assert promised["learned"].standard == "a score of 0.5 or more by labels:to-label/labels.csv"


def test_a_classifier_that_is_learned_again_takes_over_if_it_is_better(
    learned: tuple[pathlib.Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _said = learned
    catalog = catalogs.load(str(folder / "learned" / "catalog.toml"))
    served = open_judge(catalog)
    before = served.name
    monkeypatch.setattr("agents.classifier.renewing.EVERY_S", 0.0)
    drifted = [prompt.replace(HARD[0], "with blue glass") for prompt in prompts_of(300)]  # of which none was hard

    def scored(_scorer: str) -> Score:
        return lambda level, texts, _images: np.array([level == "good" or "blue glass" not in text for text in texts])

    monkeypatch.setattr("agents.profiling.generation.scoring.open_scorer", scored)
    asked = Asked(
        catalog=catalog, text=(folder / "learned" / "catalog.toml").read_text(), prompts=seeded(drifted, 300, 1),
        scorer="labels:of.csv", standard=None, pairs=300, fitting=Fitting(), seed=1, out=folder / "learned",
        models=MODELS,
    )  # fmt: skip
    new, old, is_better = retrain(asked)
    assert is_better
    assert new.recovery > old.recovery
    assert served.classify("a cat with blue glass").hardness > served.classify("a cat").hardness
    assert served.name != before
    again, last, is_better = retrain(replace(asked, catalog=catalogs.load(str(folder / "learned/catalog.toml"))))
    assert (again.recovery, is_better) == (pytest.approx(last.recovery), False)


def test_a_judge_that_is_no_better_than_random_is_not_promoted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled = Mock(wraps=profile)
    monkeypatch.setattr("agents.learning.learning.run", profiled)
    with folder_of(tmp_path, prompts_of(120)):
        asked = ("--catalog", "catalog.toml", "--prompt-file", "prompts.txt")
        run(*asked, "--images", "to-label")
        draws = random.Random(7)
        label(tmp_path / "to-label" / "labels.csv", lambda _prompt, _level: draws.randrange(2))
        again = Mock(wraps=generate_into)
        monkeypatch.setattr("agents.profiling.generation.pool.generate_into", again)
        said = run(*asked, "--scorer", "labels:to-label/labels.csv")
    assert (said.exit_code, type(said.exception)) == (1, SystemExit), said.output
    assert said.output.count("not better than random, not promoted") == 2
    assert again.call_count == 0  # each image was generated for the labels
    assert profiled.call_count == 1  # what is not promoted leaves a profile without another one
    catalog = catalogs.load(str(tmp_path / "learned" / "catalog.toml"))
    assert [*catalog.cascades, *catalog.discriminators, *catalog.classifiers] == []


def test_a_scorer_that_cannot_be_opened_is_told_before_an_image_is_generated(tmp_path: pathlib.Path) -> None:
    with folder_of(tmp_path, prompts_of(60)):
        pathlib.Path("labels.csv").write_text("prompt,right\na cat,1\n")
        asked = ("--catalog", "catalog.toml", "--prompt-file", "prompts.txt", "--scorer")
        for scorer, wrong in (
            ("labels:labels.csv", "columns prompt, level and right"),
            ("labels:none.csv", "none.csv"),
        ):
            assert wrong in str(run(*asked, scorer).exception)
    assert not (tmp_path / "learned").exists()


@pytest.mark.parametrize(("taken_ms", "is_said"), [(4.9, True), (6.0, False), (19.0, False), (21.0, True)])
def test_a_level_s_time_is_called_in_question_from_a_factor_of_two(taken_ms: float, is_said: bool) -> None:
    level = replace(parse(CATALOG, "mine").level("good"), latency_ms={1: 10.0})
    nothing, taken = np.full(5, np.nan), np.full((5, 2), taken_ms)
    taken[0] = 1e4  # one that was disturbed
    images = GeneratedImages(quality=nothing, facts=nothing, missed=nothing, files=(), counts=(), taken_ms=taken)
    assert bool(list(stale_times({"good": level}, {"good": images}))) == is_said
    unknown = replace(images, taken_ms=np.full((5, 2), np.nan))
    assert not list(stale_times({"good": level}, {"good": unknown}))


def test_no_held_out_prompt_is_learned_from() -> None:
    parts = parts_of(100, seed=1)
    rows = np.concatenate(parts)
    assert sorted(rows) == list(range(100))
    with pytest.raises(PochadeError, match="too few"):
        parts_of(10, seed=1)


def test_a_figure_that_is_not_known_is_null_in_the_file() -> None:
    alike = worth_of(np.arange(100.0), np.ones(100), np.ones(100), 1)
    learned = SimpleNamespace(standard=0.5, right={"quick": math.nan, "good": 1.0}, worth={"classifier": alike})
    found = json.loads(json.dumps(figures(learned), allow_nan=False))  # type: ignore[arg-type]
    assert found["right"] == {"quick": None, "good": 1.0}
    assert (found["classifier"]["recovery"], found["classifier"]["promoted"]) == (None, False)


def test_a_ranking_by_the_truth_recovers_all_and_a_drawn_one_nothing() -> None:
    draws = np.random.default_rng(1)
    light = (draws.random(1000) < 0.5).astype(float)
    heavy = np.ones(1000)
    truth, chance = worth_of(1 - light, light, heavy, 1), worth_of(draws.random(1000), light, heavy, 1)
    assert truth.recovery == pytest.approx(1)
    assert truth.is_promoted
    assert abs(chance.recovery) < 0.15
    assert not chance.is_promoted
    unknown = np.full(1000, np.nan)
    assert not worth_of(1 - light, light, unknown, 1).is_promoted


def test_kinds_that_read_with_a_model_say_so_where_none_is_given() -> None:
    for kind in ("embedding", "image-embedding"):
        with pytest.raises(PochadeError, match=f"{kind} reads with a model: name its folder or hub id with --encoder"):
            kinds.discriminator(Fitting(discriminator=kind))
    with pytest.raises(PochadeError, match="bert reads with a model"):
        kinds.classifier(Fitting(classifier="bert"))


def test_a_backbone_is_fitted_that_the_encoder_option_names() -> None:
    fit = kinds.discriminator(Fitting(discriminator="network", encoder="no-net"))
    with pytest.raises(PochadeError, match="'no-net' is neither"):
        fit(*drafts(40))


def test_the_papers_discriminator_tells_drafts_from_a_better_level_s_images(
    learned: tuple[pathlib.Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _said = learned
    fit = Mock(wraps=fit_network)
    monkeypatch.setattr("agents.learning.discriminators.network.fit_network", fit)
    with contextlib.chdir(folder):
        said = run(
            "--catalog", "catalog.toml", "--prompt-file", "prompts.txt", "--scorer", "labels:to-label/labels.csv",
            "--discriminator", "network", "--real", "good", "--classifier", "none", "--out", "papers",
        )  # fmt: skip
        with pytest.raises(PochadeError, match="no level and no folder with images"):
            CliRunner().invoke(
                learn,
                ["--catalog", "catalog.toml", "--prompt-file", "prompts.txt", "--scorer", "labels:to-label/labels.csv",
                 "--real", "nowhere", "--out", "papers"],
                obj=LazySettings({}, None), catch_exceptions=False,
            )  # fmt: skip
    assert isinstance(said.exception, SystemExit | None), said.exception
    config = json.loads((folder / "papers" / "discriminators" / "learned" / "config.json").read_text())
    assert config["kind"] == "network"
    assert config["calibrated_on"]["n"] == len(parts_of(300, 1).choose)
    (images, _prompts, is_real), _how = fit.call_args
    for label, level in ((1, "good"), (0, "quick")):
        generated = {np.asarray(Image.open(file)).tobytes() for file in (folder / "to-label").glob(f"{level}-*.png")}
        shown = {image.tobytes() for image, real in zip(images, is_real, strict=True) if real == label}
        assert len(generated) > len(shown) > 100
        assert shown < generated, level
