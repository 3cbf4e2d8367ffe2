"""Model cards, written from what was measured (measured.json) and noted in training (training.json), nothing else."""

import json
from pathlib import Path
from typing import Any

_FRONT = """---
license: apache-2.0
library_name: {library}
tags: [pochade, procedural, tiny]
---
"""

_USE = """```python
from diffusers import DiffusionPipeline

pipeline = DiffusionPipeline.from_pretrained("infra/models/{name}")
prompt = "a red heart above a golden star at night"
pipeline(prompt, height=32, width=32, num_inference_steps={steps}, guidance_scale={guidance}).images[0]
```"""

_DATA = """Trained from scratch on pictures that `agents/models/renderer.py` draws and captions that
`agents/models/world.py` writes: 32 x 32 px, one to four objects of 14 shapes and 8 colours (the frequencies of both
fall with rank), five named backgrounds; plus sentences of everyday prompt words.
No picture, text or weight of anybody else was used."""


def write_cards(models: Path) -> None:
    """Write README.md into the folder of every variant and of the discriminator, from the JSON files beside them."""
    measured = json.loads((models / "measured.json").read_text())
    notes_path = models / "training.json"
    notes = json.loads(notes_path.read_text()) if notes_path.exists() else {}
    for name, figures in measured["variants"].items():
        (models / name / "README.md").write_text(_variant_card(name, figures, notes, measured["seed"]))
    if "discriminator" in measured:
        card = _discriminator_card(measured["discriminator"], notes.get("discriminator", {}), measured["seed"])
        (models / "discriminator" / "README.md").write_text(card)


def _trained(notes: dict[str, Any], names: list[str]) -> str:
    rows = ["| part | seed | parameters | samples | training | end |", "| --- | --- | --- | --- | --- | --- |"]
    for name in names:
        note = notes.get(name)
        if not note:
            continue
        ends = ("loss", "round_trip", "round_trip_noise_03", "scenes_read")
        end = ", ".join(f"{key} {note[key]}" for key in ends if key in note)
        spent = f"{note.get('seconds', 0) / 60:.0f} min on a shared {note.get('device', 'cpu')} core"
        cells = (name, note.get("seed", ""), note.get("parameters", ""), note.get("samples", ""), spent, end)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _variant_card(name: str, figures: dict[str, Any], notes: dict[str, Any], seed: int) -> str:
    by = figures["all_facts_by_objects"]
    unet = notes.get("variants", {}).get(name, "")
    quality = "\n".join(
        f"| {number} | {row['all_facts']:.3f} | {row['standard_error']:.3f} | {row['n']} |"
        for number, row in by.items()
    )
    times = " | ".join(f"{figures['latency_ms'][batch]}" for batch in figures["latency_ms"])
    return f"""{_FRONT.format(library="diffusers")}
# Pochade {name}

The {name} variant of the tiny family: steps {figures["steps"]}, guidance {figures["guidance"]}, 32 x 32 px.

{_USE.format(name=name, steps=figures["steps"], guidance=figures["guidance"])}

## Training

{_DATA}
One run with one seed; the run-to-run spread is unknown.

{_trained(notes, ["autoencoder", "decoder", "text_encoder", *(["unet_S"] if unet == "unet_S1" else []), unet])}

## Measured

By `python -m agents.models.evaluate` (seed {seed}) on fresh prompts; a picture
counts if *every* fact its prompt states holds.

| objects | all facts right | standard error | n |
| --- | --- | --- | --- |
{quality}

All together {figures["all_facts"]:.3f}; share of single facts {figures["quality"]:.4f}
(standard error {figures["quality_standard_error"]:.4f}).

| batch | {" | ".join(figures["latency_ms"])} |
| --- | {" | ".join("---" for _ in figures["latency_ms"])} |
| ms of CPU time a call, one thread | {times} |

Loading took {figures["load_s"]} s.

## Limits

It knows its grammar. Other prompts give whatever of their words it knows, or a scene of its own.
Facts do not measure sharpness.
"""


def _three(figures: dict[str, Any], what: str) -> str:
    return " / ".join(str(figures[f"{what}_{case}"]) for case in ("light", "at_threshold", "heavy"))


def _discriminator_card(figures: dict[str, Any], note: dict[str, Any], seed: int) -> str:
    curve = figures["deferral_curve"]
    recovered = " / ".join(str(value) for value in figures["recovery"].values())
    rows = "\n".join(f"| {point['threshold']:.2f} | {point['deferred']:.3f} |" for point in curve)
    return f"""{_FRONT.format(library="torch")}
# Pochade discriminator

Confidence in [0, 1] that a picture shows everything its prompt states. It reads the prompt with the
family's frozen text encoder and the picture with a small CNN, and compares them slot by slot.
Recommended threshold: **{figures["threshold"]}**.

```python
from pathlib import Path
from agents.models.discriminator import Discriminator

judge = Discriminator.load(Path("infra/models/discriminator"))
judge.score([picture], ["a red heart above a golden star at night"])  # uint8 [h, w, 3], any size
```

## Training

{note.get("pictures", "")} light and heavy pictures labelled by the fact checker, and rendered pictures
with right and nearly right captions; {note.get("samples", "")} samples (seed {note.get("seed", "")})
in {note.get("seconds", 0) / 60:.0f} min on a shared core; {note.get("parameters", "")} trained parameters.
Confidences were calibrated (scale and shift) on held-out light pictures.
Outside the grammar the label is graded: how clear the picture is, and whether it shows the words of this world
that the prompt contains.

## Measured

By `python -m agents.models.evaluate` (seed {seed}) on {figures["n"]} fresh prompts
of the natural mix, light pictures against heavy ones.

| what | value |
| --- | --- |
| AUC, light pictures | {figures["auc"]} |
| AUC, heavy pictures | {figures["auc_heavy"]} |
| Brier score | {figures["brier"]} |
| escalated at the threshold | {figures["deferred_at_threshold"]} |
| all facts right: light / cascade at the threshold / heavy | {_three(figures, "all_facts")} |
| share of facts: light / cascade / heavy | {_three(figures, "quality")} |
| recovery (0 random, 1 oracle) at 30 / 50 / 70 % escalated | {recovered} |
| CPU time to score one picture, one thread | {figures["latency_ms"]} ms |

Deferral curve f(t), the share of light pictures with a confidence below t:

| t | f(t) |
| --- | --- |
{rows}
"""
