"""`pochade again`: make the image of a request again, or by another level."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from planner.catalog.option_limits import QUALITIES
from schemas.errors import PochadeError
from streams.commands import opening
from streams.commands.explain import request_of_result
from streams.commands.options import SHOWN, duration, since_option
from streams.commands.requests import submit_one, waiting_options

if TYPE_CHECKING:
    from streams.settings import Settings


@click.command()
@click.argument("request_id", metavar="ID")
@click.option("--quality", type=click.Choice(list(QUALITIES)), help="Quality instead of the same level.")
@click.option("--model", metavar="NAME", help="Variant or base model to generate with, instead of the same.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of the noise, instead of the same.")
@waiting_options
@since_option("How far back to look for the result, such as 10m, 2h or 7d.", "7d")
@SHOWN
@click.pass_obj
def again(
    load: "Callable[[], Settings]", request_id: str, quality: str | None, model: str | None, seed: int | None,
    is_waiting: bool, timeout: float, since: int, output: str,
) -> None:  # fmt: skip
    """Make the image of the request ID again, by a new request with all that made it; print the new id.

    The same weights, engine and kind of device in float32 give the same pixels, but for the last bit where it was made
    in another batch (none with loading.one_by_one in the catalog); --wait says whether the file is the same. --quality
    or --model asks another level, with the same seed; a quality that the plan does not serve ends on the nearest, and
    --model heavy asks for that level strictly. An image that began with a draft or with a stored latent is refused,
    as only a plan chooses these: --model makes another one from noise, with the same seed.

    \b
    Examples:
      pochade again demo-0-0007 --wait
      pochade again demo-0-0007 --quality high
      pochade again demo-0-0007 --seed 8 --wait
    """
    from planner.serving.again import again as make_again
    from planner.serving.again import differences
    from streams.clock import now_ms
    from streams.codec.requests import stated

    settings = load()
    with opening.client(settings) as client:
        result = opening.find(client, request_id, since)
    if result is None:
        raise PochadeError(f"no result of request {request_id!r} within the last {duration(since)} (--since 8d: all)")
    request = request_of_result(settings, result)
    anew = make_again(request, result, now_ms(), quality=quality or "", model=model or "", seed=seed)
    ended = submit_one(settings, anew.prompt, None, stated(anew), timeout if is_waiting else None, output)
    if ended is not None and output == "table" and not (quality or model or seed is not None):
        other = differences(result.made, ended.made) or "rounding, or text or a receipt in one of the files"
        same = ended.image_sha256 == result.image_sha256
        click.echo(f"file   {'the same bytes as' if same else f'not the bytes ({other}) of'} {request_id}")
