"""Model cards of every folder below `models`, from what training noted and what was measured; nothing else.

Read are <models>/training.json (the notes of training), <models>/evaluate.json (`pochade evaluate`) and
<models>/../profiles/tiny.json (`pochade profile`); what is not there is left out.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from huggingface_hub import ModelCard, ModelCardData

from agents.lab.family import CATALOG, VARIANTS, folder_of
from agents.lab.training.cards.tables import figures_of, figures_table, training_table, with_interval
from agents.lab.training.cards.texts import DATA, KINDS, ONE_STEP, Kind
from planner.catalog.entries import Variant
from planner.catalog.evidence.estimates import share_interval

CARD: Final = "README.md"
_TEMPLATE: Final = Path(__file__).parent / "card.md.jinja"
NOTES: Final = "training.json"
_BOOKKEEPING: Final = ("is_finished", "made_from")  # of the work folder, not of the model


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the cards; empty where a file is missing."""

    notes: Mapping[str, Any]  # training -> its note
    evaluated: Mapping[str, Any]  # evaluate.json
    profiled: Mapping[str, Any]  # a catalog's profile

    @classmethod
    def read(cls, models: Path) -> "Sources":
        return cls(
            _json(models / NOTES),
            _json(models / "evaluate.json"),
            _json(models.parent / "profiles" / "tiny.json"),
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A folder that gets a card."""

    folder: Path
    kind: Kind
    name: str
    trainings: tuple[str, ...]  # notes, the parts it stands on first


def collect_notes(work: Path, models: Path, **more: object) -> None:
    """Merge the notes of the work folder into <models>/training.json; what is noted there of other parts stays."""
    found = {}
    for path in sorted(work.glob("*.json")):
        note = json.loads(path.read_text())
        if isinstance(note, dict):
            found[path.stem] = {key: value for key, value in note.items() if key not in _BOOKKEEPING}
    models.mkdir(parents=True, exist_ok=True)
    (models / NOTES).write_text(json.dumps(_json(models / NOTES) | found | more, indent=2) + "\n")


def write_cards(models: Path) -> None:
    """Write README.md into every model folder below `models`."""
    sources = Sources.read(models)
    for subject in subjects(models, sources.notes):
        card(subject, sources).save(subject.folder / CARD)


def subjects(models: Path, notes: Mapping[str, Any]) -> Iterator[Subject]:
    """Every model folder that is there."""
    assembled = notes.get("assemble", {})
    unets, quick = assembled.get("unets", {}), assembled.get("quick", ())
    for index in sorted(models.glob("*/model_index.json")):
        name = index.parent.name
        unet = unets.get(name, f"unet_{name}")
        base = notes.get(unet, {}).get("base", "")
        decoders = ("decoder", "quick_decoder") if name in quick else ("decoder",)
        parts = ("autoencoder", *decoders, "text_encoder", *([base] if base else []), unet)
        yield Subject(index.parent, KINDS["pipeline"], name, parts)
    for pattern, kind, training in (
        ("loras/*", "lora", "lora_{}"),
        ("controlnet", "controlnet", "controlnet"),
        ("discriminators/*", "discriminator", "discriminator_{}"),
        ("classifiers/*", "classifier", "predictor_{}"),
        ("classifiers/rules", "rules", "rules"),
        ("rules", "rules", "rules"),
        ("scorer", "scorer", "scorer"),
        ("safety/*", "safety", "safety_{}"),
    ):
        for folder in sorted(path for path in models.glob(pattern) if path.is_dir()):
            if (kind, folder.name) != ("classifier", "rules"):
                own = training.format(folder.name)
                yield Subject(
                    folder, KINDS[kind], folder.name, (f"{own}_refined", own)
                )  # its figures are the last one's


def card(subject: Subject, sources: Sources) -> ModelCard:
    """A card with its metadata, from the template beside this module."""
    kind = subject.kind
    shown = _generating(subject)
    written: ModelCard = ModelCard.from_template(
        ModelCardData(license="apache-2.0", library_name=kind.library, tags=["pochade", "procedural", "tiny"]),
        template_path=str(_TEMPLATE),
        title=kind.title.format(name=subject.name),
        what=kind.what,
        chance=" ".join(_against_chance(subject, sources)),
        use=kind.use.format(name=subject.name, steps=shown.steps, guidance=shown.guidance),
        data=DATA,
        trained=training_table(sources.notes, subject.trainings),
        measured=list(_measured(subject, sources)),
        limits=f"{kind.limits}\n{ONE_STEP}" if kind is KINDS["pipeline"] and shown.steps == 1 else kind.limits,
    )
    return written


def _against_chance(subject: Subject, sources: Sources) -> Iterator[str]:
    """Say whether a judge was shown to beat chance: n, value and 95 % interval; nothing of what is no judge."""
    judges = sources.evaluated.get(subject.kind.measured, {})
    if interval := judges.get(subject.name, {}).get("ci"):
        verdict = "Better than chance" if interval[0] > 0 else "Not shown to be better than chance"
        own, best = (judges[name] for name in (subject.name, _best(judges)))
        beside = "" if own is best else f"; `{_best(judges)}` recovers {with_interval(best['recovery_at_half'], None)}"
        yield (
            f"{verdict} on {sources.evaluated['prompts']} fresh prompts: with half of them on heavy it recovers\n"
            f"{with_interval(own['recovery_at_half'], interval)} of what an oracle gains over a random choice{beside}."
        )
    if classes := sources.notes.get(subject.trainings[-1], {}).get("classes"):
        right, prompts, most = classes["accuracy"], classes["prompts"], classes["majority"]
        low, high = share_interval(right, prompts)
        verdict = "more" if low > most else "fewer" if high < most else "not shown to be more"
        yield (
            f"Its class is right on {with_interval(right, (low, high))} of {prompts} held-out prompts,\n{verdict}"
            f" than the commonest class alone: {with_interval(most, None)}."
        )


def _best(judges: Mapping[str, Any]) -> str:
    return max(judges, key=lambda name: judges[name].get("recovery_at_half", 0.0))


def _measured(subject: Subject, sources: Sources) -> Iterator[str]:
    """Paragraphs of figures, each with where they come from."""
    own = subject.trainings[-1]
    for note in (own, f"{own}_held_out"):
        if rows := figures_table({"value": figures_of(sources.notes.get(note, {}))}):
            yield f"When it was trained, on fresh prompts:\n\n{rows}"
    for verb, source in (("evaluate", sources.evaluated), ("profile", sources.profiled)):
        figures = source.get(subject.kind.measured, {})
        columns = {name: figures[name] for name in figures if _is_of(name, subject)}
        if rows := figures_table(columns):
            yield f"By `pochade {verb}`, seed {source.get('seed')}, {source.get('prompts')} fresh prompts:\n\n{rows}"


def _generating(subject: Subject) -> Variant:
    """The variant of the subject's folder; of what is no level the one that serves it on request."""
    others = (*CATALOG.on_request.values(), CATALOG.best())
    return next((each for each in VARIANTS.values() if folder_of(each).name == subject.folder.name), others[0])


def _is_of(measured: str, subject: Subject) -> bool:
    """Whether a level is generated with the subject's folder; any other part is measured under its own name."""
    if subject.kind is not KINDS["pipeline"]:
        return measured == subject.name
    return measured in VARIANTS and folder_of(VARIANTS[measured]).name == subject.name


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content
