"""The user of this process, who is recorded in orders and keys."""

import getpass
import os


def process_user() -> str:
    """Return the name of this process's user; the number of one that has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
