"""Free TCP ports on the loopback address."""

import random
import socket

from tradewind.local.errors import LocalSetupError

LOOPBACK = "127.0.0.1"

# Below 32768, where Linux starts to hand out ports for outgoing connections (ip_local_port_range),
# so that a server that restarts finds its port still free. Cluster bus ports fit in as well.
FIRST_PORT = 15_000
LAST_PORT = 32_000

_ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port right now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set SO_REUSEADDR too: without it, old connections in TIME_WAIT count as a user.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Choose `count` different ports that are free now, at random so that parallel runs differ.

    Nothing holds them: whoever starts a server there must be ready to lose the race.
    Raises LocalSetupError if the range is exhausted.
    """
    chosen: list[int] = []
    for _ in range(_ATTEMPTS + count):
        if len(chosen) == count:
            return chosen
        port = random.randint(FIRST_PORT, LAST_PORT)
        if port not in chosen and is_free(port):
            chosen.append(port)
    if len(chosen) == count:
        return chosen
    raise LocalSetupError(
        f"{count} free ports between {FIRST_PORT} and {LAST_PORT} were not found: end some servers"
    )


def next_free_ports(first: int, count: int) -> list[int]:
    """Give the `count` lowest free ports from `first` on. Raises LocalSetupError past 65535."""
    chosen: list[int] = []
    for port in range(first, 65_536):
        if len(chosen) == count:
            return chosen
        if is_free(port):
            chosen.append(port)
    if len(chosen) == count:
        return chosen
    raise LocalSetupError(
        f"{count} free ports from {first} on were not found: start at a lower port"
    )
