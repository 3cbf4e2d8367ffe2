"""`pochade init`: a catalog of two models of one's own, loaded, checked and timed here."""

import json
import multiprocessing
import os
import statistics
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.catalog.entries import run_ms
from streams.commands.options import POSITIVE, Size
from streams.extras import need
from streams.visible import counted

if TYPE_CHECKING:
    from agents.profiling.own_models import OwnModel
    from agents.profiling.profiling import Round
    from planner.catalog.entries import Variant

BATCHES = (1, 2)
BUDGET_S = 3.0  # for the repeats of one batch size
UNTIMED = {"latency_ms": "{ 1 = 1000 }", "load_ms": 10_000, "memory": "not measured, as latency_ms and load_ms are not"}
HEAD = """\
# Two models of your own, written by `pochade init`, which measured latency_ms (batch size -> ms for one call) and
# load_ms on {device}. Levels without `quality` count by run time, the slower one as the better; this measures it:
#   pochade profile --catalog {out} --out {folder} --prompt-file FILE --scorer CLIP --write
# Without [[cascades]] no image is escalated, and requests get the level that the plan chooses; `--quality low` and
# `--quality high` choose themselves. This makes a discriminator, and a cascade if it is better than random:
#   pochade learn --catalog {out} --prompt-file FILE --scorer CLIP
{slo}"""
LEVEL = """
# {kind}, {amount}. Licence: {licence}
# Memory: {memory}
# Steps and guidance: {steps_from}; see its card
[variants.{name}]
engine = "diffusers"
model = {model}
scheduler = ""  # the model's own
steps = {steps}
guidance = {guidance}
width = {width}
height = {height}
size_multiple = {size_multiple}  # px: other sizes are rounded down
latency_ms = {latency_ms}
load_ms = {load_ms}
honours = {honours}  # what requests may change
"""
KNOWN = "as models of this name want them"
BY_DEFAULT = "the pipeline's defaults, which are wrong for a distilled model"


@click.command("init")
@click.option("--light", required=True, metavar="MODEL", help="Quick model: a folder of diffusers, or a hub id.")
@click.option("--heavy", required=True, metavar="MODEL", help="Better and slower model: a folder, or a hub id.")
@click.option(
    "--slo", type=POSITIVE, metavar="SECONDS",
    help="Latency that most requests are to have (default: three times the heavy model's run time).",
)  # fmt: skip
@click.option(
    "--size", type=Size(), metavar="WIDTHxHEIGHT",
    help="Size in pixels of both levels' images (default: each model's own).",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("catalog.toml"), show_default=True,
    help="File to write the catalog to; it must not exist.",
)  # fmt: skip
@click.pass_obj
def init(obj: Any, light: str, heavy: str, slo: float | None, size: tuple[int, int] | None, out: Path) -> None:
    """Write a catalog for two diffusers models of your own: read, load, check and time both.

    A MODEL is a folder as `save_pretrained` writes it, or OWNER/NAME of the Hugging Face hub, with @REVISION if you
    like. Says of both the licence and the memory they need. Each is loaded twice and generates a few images, so a large
    model takes minutes; nothing is sent anywhere. Quality is not measured: levels then count by run time.

    \b
    Examples:
      pochade init --light ./my-turbo --heavy ./my-xl --slo 5
      pochade init --light stabilityai/sdxl-turbo --heavy stabilityai/stable-diffusion-xl-base-1.0 --out sdxl.toml
    """
    need("torch", "diffusers", "transformers", "huggingface_hub")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # also of the processes that load the models
    from agents.profiling.own_models import read_model
    from schemas.errors import PochadeError
    from streams.parsing import catalog as catalog_text

    if out.exists():
        raise PochadeError(f"{out} exists: give another --out, or remove it")
    threads: int = obj().worker.threads
    for given in (given for given in (light, heavy) if not Path(given).expanduser().is_dir()):
        click.echo(f"looking for {given} on the hub ...", err=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: read_model(given, size) for name, given in (("light", light), ("heavy", heavy))}
    if models["light"].source == models["heavy"].source:
        raise PochadeError(f"--light and --heavy are both {models['light'].source}: give two models")
    device, itemsize, free = _place()
    for name, model in models.items():
        _describe(name, model, device, itemsize, free)
    head = HEAD.format(device=device, out=out, folder=out.parent, slo=f"slo_s = {slo:g}\n" if slo else "")
    text = head + "".join(level_text(name, model, UNTIMED) for name, model in models.items())
    click.echo("loading each model and timing its images, which takes minutes for large ones ...", err=True)
    untimed = catalog_text.parse(text, out.stem).variants
    try:
        figures = {name: _figures(each, _timed(each, threads), threads) for name, each in untimed.items()}
    except PochadeError as error:
        out.write_text(text)
        todo = (
            f"correct {out}, which has all but times; `pochade doctor --models` checks it, `pochade profile --catalog "
        )
        raise PochadeError(f"{error}\n{todo}{out} --out {out.parent} --no-quality --write` measures it") from error
    text = head + "".join(level_text(name, models[name], measured) for name, measured in figures.items())
    times = {name: run_ms(each, 1) / 1000 for name, each in catalog_text.parse(text, out.stem).variants.items()}
    out.write_text(text)
    click.echo(f"\n{out}: written; an image takes {times['light']:.3g} s on light and {times['heavy']:.3g} s on heavy")
    for line in _notes(models, times, slo):
        click.echo(f"note: {line}")
    click.echo(COMMANDS.format(catalog=out.resolve()))


def _place() -> tuple[str, int, int]:
    """Return the device that workers generate on here, the bytes of a number there, and its free memory in bytes."""
    import psutil
    import torch

    from agents.engines.pipelines import placement
    from planner.catalog.entries import PLAIN

    device, dtype = placement(PLAIN, has_cuda=torch.cuda.is_available())
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(), dtype.itemsize, int(torch.cuda.mem_get_info()[0])
    return "the CPU", dtype.itemsize, int(psutil.virtual_memory().available)


def _describe(name: str, model: "OwnModel", device: str, itemsize: int, free: int) -> None:
    needed = model.bytes_at(itemsize)
    click.echo(f"{name}: {model.kind}, {_amount(model)}, from {model.source}")
    click.echo(f"  licence: {model.licence}")
    click.echo(
        f"  images: {model.width}x{model.height} px, {counted(model.steps, 'step')}, guidance {model.guidance:g}"
    )
    click.echo(f"  memory: about {_gb(needed)} on {device}, by its weights and a fifth; {_gb(free)} are free")
    if needed > free:
        click.echo("  note: it may not fit; with a smaller loading.dtype in the catalog it needs less")


def _amount(model: "OwnModel") -> str:
    return f"{model.parameters / 1e6:,.3g} million parameters in {model.precision}"


def _gb(amount: float) -> str:
    return f"{amount / 1e9:.1f} GB" if amount >= 1e9 else f"{amount / 1e6:.0f} MB"


def _timed(variant: "Variant", threads: int) -> "Round":
    """Load a level in a process of its own and time its calls. Raises EngineFailed, PochadeError."""
    from agents.profiling.generation.pool import progress_bar
    from agents.profiling.profiling import measure

    with progress_bar() as bar, ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        task = bar.add_task(f"{variant.name}: loading and generating", total=None)
        found = pool.submit(measure, variant, BATCHES, threads, BUDGET_S).result()
        bar.update(task, total=1, completed=1)
    return found


def _figures(variant: "Variant", found: "Round", threads: int) -> dict[str, Any]:
    """Return what was measured, as the catalog has it; a larger batch never takes less time than a smaller one."""
    from agents.profiling.profiling import clock_of

    times, last, clock = list[str](), 0.0, f"{clock_of(variant, threads)}_ms"
    for batch, calls in sorted(found.calls.items()):
        last = max(last, statistics.median(getattr(call, clock) for call in calls))
        times.append(f"{batch} = {float(f'{last:.4g}')}")
    peak = found.cuda_bytes or found.memory_bytes
    memory = f"measured, {_gb(peak)} of the {'device' if found.cuda_bytes else 'process'} at its peak"
    return {"latency_ms": f"{{ {', '.join(times)} }}", "load_ms": round(found.load_ms), "memory": memory}


def level_text(name: str, model: "OwnModel", figures: Mapping[str, Any]) -> str:
    """Return a model's table in a catalog, with what was measured of it."""
    own = model._asdict() | {"model": json.dumps(model.source), "honours": json.dumps(model.honours)}
    steps_from = KNOWN if model.is_distilled else BY_DEFAULT
    text = LEVEL.format(name=name, amount=_amount(model), steps_from=steps_from, **own, **figures)
    if model.files:
        text += f'\n[variants.{name}.loading]\nfiles = "{model.files}"  # which of the weight files\n'
    if model.call:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in model.call.items())
        text += f"\n[variants.{name}.call]  # further arguments of the pipeline's call\n{lines}"
    return text


def _notes(models: "Mapping[str, OwnModel]", times: Mapping[str, float], slo: float | None) -> Iterator[str]:
    if times["light"] >= times["heavy"]:
        yield "light takes longer than heavy, and plans would take it for the better one: exchange them"
    if slo and times["heavy"] > slo:
        yield f"heavy takes longer than the SLO of {slo:g} s, so that plans use it little: raise slo_s"
    light, heavy = (f"{model.width}x{model.height}" for model in models.values())
    if light != heavy:
        yield f"light's images are {light} px and heavy's {heavy}: --size makes them equal"
    yield "quality is not measured, so that a slower level counts as a better one; the catalog has the command"
    yield "no discriminator judges images of these models, so that none is escalated: `pochade learn` makes one"


COMMANDS = """
Serve them:

  export POCHADE_CATALOG={catalog}
  pochade up
  pochade serve classifier router discriminator ledger planner & pochade serve worker &
  pochade submit "a red heart" --quality high --wait

What to decide, and several cards: agents/engines/OWN_MODELS.md
"""
