"""Templates of pages: what is put in is escaped, and a name that is not given is an error."""

from collections.abc import Mapping
from typing import Any

import jinja2


def template(package: str, file: str, filters: Mapping[str, Any], *, trims: bool = True) -> jinja2.Template:
    """Return the template in a package's folder. `trims`: lines that hold a block alone leave no line behind."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=trims,
        lstrip_blocks=trims,
    )
    environment.filters |= filters
    return environment.get_template(file)
