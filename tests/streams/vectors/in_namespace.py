"""Runs a program in namespaces of its own, with a folder for /run, and lets one TCP port out of them.

A program that listens on all interfaces is reached by nobody else there. `unshare --net --mount python in_namespace.py
FD PORT RUN COMMAND...`: connections accepted at the listening socket FD, which was made outside, are passed on to PORT
inside. Each line on standard input starts the program, and its process id is printed; the end of the input ends all.
"""

import contextlib
import ctypes
import fcntl
import functools
import signal
import socket
import struct
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
BYTES = 1 << 16
_prctl = ctypes.CDLL(None).prctl


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def pass_on(listener: socket.socket, port: int) -> None:
    while True:
        outside, _ = listener.accept()
        try:
            inside = socket.create_connection(("127.0.0.1", port))
        except OSError:
            outside.close()
            continue
        for one, other in ((outside, inside), (inside, outside)):
            threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(BYTES):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def start(command: list[str]) -> subprocess.Popen[bytes]:
    die_with_us = functools.partial(_prctl, PR_SET_PDEATHSIG, signal.SIGKILL)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=die_with_us)


def main() -> None:
    listener, port, run, command = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    bring_up_loopback()
    subprocess.run(["mount", "--bind", run, "/run"], check=True)
    threading.Thread(target=pass_on, args=(listener, port), daemon=True).start()
    child = None
    for _ in sys.stdin:
        if child is not None:
            child.wait()
        child = start(command)
        print(child.pid, flush=True)
    if child is not None:
        child.kill()
        child.wait()


if __name__ == "__main__":
    main()
