"""Locks of files that end with the process that holds them."""

import fcntl


def try_lock(handle: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file without waiting; False: another process holds it. `how`: fcntl.LOCK_EX or LOCK_SH."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
