"""The scopes of API keys, apart from keys themselves, so that the command's help need not load those."""

from typing import Final

GENERATE, READ = "generate", "read"
SCOPES: Final = (GENERATE, READ)  # to ask for images and cancel; to look at jobs and models
VIEWER, OPERATOR = (
    "viewer",
    "operator",
)  # of the console: it shows all tenants' requests, so that no key has them unasked
EVERY_SCOPE: Final = (*SCOPES, VIEWER, OPERATOR)
