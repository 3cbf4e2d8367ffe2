"""`pochade bench trace`: a trace of the papers, or of the same shape, written to a file."""

import pathlib

import click

from replay.commands.replay import OUT
from streams.commands.options import FOLDER


@click.command()
@click.argument("name")
@click.option(
    "--folder", type=FOLDER, help="Folder of the published traces (default: generated ones of the same shape)."
)
@click.option(
    "--redraw", type=click.IntRange(0), help="Number of another draw of the arrivals (default: always the same)."
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of requests.")
@OUT
def trace(name: str, folder: pathlib.Path | None, redraw: int | None, limit: int | None, output: pathlib.Path) -> None:
    """Write the trace of this NAME, for `simulate` and `replay`: one of those that `bench papers` and `frontier` use.

    phases are of easy and hard prompts, components-x1 a stretch of GenTD26 (Alibaba cluster-trace-v2026-GenAI) in
    FOLDER with bases, LoRAs, times and users, sparse-x1 made requests for components that seldom come together again,
    both for the catalog genai2026; components are all requests of GenTD26.

    \b
    Examples:
      pochade bench trace phases --out phases.csv
      pochade bench trace components --folder data/genai2026 --out genai.jsonl.gz
      pochade simulate genai.jsonl.gz --catalog genai2026 --policy clipper-heavy --workers 16 --speed 40
    """
    from replay.bench.papers.runs.arrivals import open_trace
    from replay.traces.writing import write

    found = open_trace(name, folder, limit, redraw)
    write(found, output)
    click.echo(f"{output}: {len(found)} requests over {found.span_ms / 1000:.6g} s")
