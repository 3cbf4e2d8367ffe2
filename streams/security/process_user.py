"""The user of this process, by whom orders and keys are made."""

import getpass
import os


def process_user() -> str:
    """Return the name of this process's user; the number of one that has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
