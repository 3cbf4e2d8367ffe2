"""Paths of the gateway with their parameters, bodies and answers, of its OpenAPI document."""

import importlib.metadata

from agents.gateway import openapi
from infra.site.reference.tables import fields, table


def body() -> str:
    """Return a section a path and method, then one a schema."""
    document, text = openapi.document(importlib.metadata.version("pochade")), ""
    for path, methods in document["paths"].items():
        for method, called in methods.items():
            text += f"\n## {method.upper()} {path}\n\n{called['summary']}\n"
            rows = ((f"`{each['name']}`", each["in"], each["description"]) for each in called.get("parameters", ()))
            text += table(("parameter", "in", "what"), rows)
            for kind, asked in called.get("requestBody", {}).get("content", {}).items():
                name = asked["schema"].get("$ref", "").rpartition("/")[2]
                text += f"\nBody, {kind}: [{name}](#{name.lower()})\n" if name else fields(asked["schema"])
            answers = called["responses"].items()
            text += table(
                ("answer", "what"), ((s, each.get("description", "An error, with its code.")) for s, each in answers)
            )
    for name, schema in document["components"]["schemas"].items():
        text += f"\n## {name}\n" + fields(schema)
    return text
