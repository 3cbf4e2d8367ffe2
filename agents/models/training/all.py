"""Run every training script in order: parts, UNets, folders, discriminator, evaluation."""

import subprocess
import sys
from pathlib import Path

import click


@click.command(epilog="Example: python -m agents.models.training.all --work build/models")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--models", type=click.Path(path_type=Path), default=Path("infra/models"), show_default=True)
def main(work: Path, models: Path) -> None:
    """Train and measure the whole family; a run that was broken off goes on where it stopped."""
    training = "agents.models.training"
    for module, *arguments in (
        (f"{training}.autoencoder", "--work", work),
        (f"{training}.text_encoder", "--work", work),
        (f"{training}.unet", "--size", "XS", "--steps", 1100, "--work", work),
        (f"{training}.unet", "--size", "L", "--steps", 2600, "--work", work),
        (f"{training}.decoder", "--work", work),
        (f"{training}.assemble", "--work", work, "--out", models),
        (f"{training}.discriminator", "--work", work, "--models", models),
        ("agents.models.evaluate", "--models", models),
    ):
        click.echo(f"== {module}")
        # one process each: memory is given back, and a failure names the script it happened in
        subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True)


if __name__ == "__main__":
    main()
