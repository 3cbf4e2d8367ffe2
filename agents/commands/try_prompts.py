"""`pochade try`: prompts through all roles in this process, without Kafka."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import InvalidRequest, PochadeError
from schemas.messages import GenerateRequest, Result, Status
from streams.commands.known_names import CatalogOption, PolicyOption
from streams.commands.options import Number
from streams.commands.requests import RequestCommand, fields_of, generation_options

if TYPE_CHECKING:  # --help need not wait for them
    from streams.settings import Settings
    from streams.store.port import ImageStore


@click.command("try", cls=RequestCommand)
@click.argument("prompts", nargs=-1, required=True, metavar="PROMPT...")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), show_default="this folder",
    help="Folder to write the images to.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of workers; each loads a model."
)
@click.option(
    "--catalog", cls=CatalogOption, metavar="NAME",
    help="Name of a shipped catalog, or a TOML file (default: the setting catalog).",
)  # fmt: skip
@click.option("--engine", metavar="NAME", help="Engine of the workers (default: the one that the catalog names).")
@click.option(
    "--policy", cls=PolicyOption, metavar="NAME", help="Policy of the planner (default: the setting planner.policy)."
)
@click.option(
    "--timeout", type=Number(min=0.1), default=600.0, show_default=True,
    help="Longest time to wait for all results, in seconds.",
)  # fmt: skip
@generation_options
@click.pass_obj
def try_prompts(
    load: "Callable[[], Settings]", /, prompts: tuple[str, ...], out: Path, workers: int, catalog: str | None,
    engine: str | None, policy: str | None, timeout: float, **asked: Any,
) -> None:  # fmt: skip
    """Generate an image of each PROMPT with all roles in this process: no Kafka, no other process.

    The classifier, the planner, the router, workers and the discriminator are those of a deployment; what they write
    is in memory. Needs `pochade[worker]`, unless --engine is profile. Exit status 0 says that all COMPLETED.

    \b
    Examples:
      pochade try "a red heart"
      pochade try "a red heart" "two blue boats" --workers 2 --out images
      pochade try "a black cat at night" --quality low --seed 7
      pochade try "a red heart" --engine profile --catalog profile
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # what importing it warns of would break up the line
    from agents.in_process.deployment import run
    from planner.policies import DEFAULT, named
    from planner.serving.admission.admission import check
    from streams import catalogs
    from streams.catalogs import check_engine
    from streams.clock import now_ms
    from streams.codec.prompt_file import request_of
    from streams.commands.terminal import console
    from streams.extras import check_roles
    from streams.store.open import open_store

    settings = _settings(load(), catalog, engine, policy)
    named(settings.planner.policy or DEFAULT)
    check_engine(settings.worker.engine)
    check_roles(settings, catalogs.load(settings.catalog), frozenset({"worker", "discriminator"}))
    now, fields = now_ms(), fields_of(asked)
    try:
        requests = [request_of({**fields, "prompt": prompt}, now) for prompt in prompts]
        for request in requests:
            check(request, settings.requests, now)
    except InvalidRequest as error:
        raise click.UsageError(f"nothing was generated: {error}") from None
    store = open_store(settings)
    with console(stderr=True).status("loading models, then generating") as shown:
        results = run(settings, requests, workers, store, timeout, shown.update)
    for request, result in zip(requests, results, strict=True):
        _show(request, result, store, out)
    if any(result.status is not Status.COMPLETED for result in results):
        raise SystemExit(1)


def _settings(settings: "Settings", catalog: str | None, engine: str | None, policy: str | None) -> "Settings":
    worker = settings.worker.model_copy(update={"engine": engine} if engine else {})
    planner = settings.planner.model_copy(update={"policy": policy} if policy else {})
    update = {"worker": worker, "planner": planner, **({"catalog": catalog} if catalog else {})}
    return settings.model_copy(update=update)


def _show(request: GenerateRequest, result: Result, store: "ImageStore", out: Path) -> None:
    from streams.commands.showing import changes
    from streams.operator.explain import why
    from streams.visible import visible

    click.echo(visible(f"{result.status}  {request.prompt}: {why(result)}{changes(result)}"))
    uris: Sequence[str] = result.image_uris or ([result.image_uri] if result.image_uri else [])
    words = re.sub(r"[^a-z0-9]+", "-", request.prompt.lower()).strip("-")[:40]
    for number, uri in enumerate(uris):
        name = f"{words}-{request.request_id[:8]}{f'-{number}' if len(uris) > 1 else ''}.png"
        try:
            out.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(store.get(uri))
        except OSError as error:
            raise PochadeError(f"cannot write {out / name}: {error}; give another --out") from None
        click.echo(visible(f"image  {out / name}"))
