"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

# Below the ports that Linux (32768 on) and macOS (49152 on) hand out by themselves. One of those may go to
# a connection of another process before the server has it, or to the very connection that waits for the
# server: TCP then connects a socket to itself.
_FIRST, _END = 20_000, 32_768
_ATTEMPTS = 100


def free_port() -> int:
    """A port of the loopback interface that nobody listens on.

    Returns:
        A number of 20000 to 32767, which systems do not hand out by themselves.

    Raises:
        RuntimeError: a hundred of them were taken.
    """
    for port in random.SystemRandom().sample(range(_FIRST, _END), _ATTEMPTS):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"{_ATTEMPTS} ports of {_FIRST} to {_END - 1} are taken")
