"""What the figures were measured on, and how busy it was with other things."""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from tradewind.local.redis_server import find_server

_SPIN = 1_000_000


def describe() -> dict[str, str]:
    """The machine, and the versions that matter."""
    server = find_server()
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "redis": ".".join(map(str, server.version)),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "spin_ms": f"{spin_ms():.1f}",
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
    }


def spin_ms() -> float:
    """How long a fixed piece of Python takes now: more than usual, and the machine is busy."""
    began_s = time.perf_counter()
    total = 0
    for value in range(_SPIN):
        total += value & 7
    return (time.perf_counter() - began_s) * 1000


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
