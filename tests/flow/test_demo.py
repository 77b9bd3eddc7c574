"""What a visitor starts first, as processes: the demo, the replay, `tradewind up`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tradewind.local.freeports import free_ports

ROOT = Path(__file__).parents[2]

# Far above what they take on an idle machine: these tests run beside others.
LIMIT_S = 150


def start(arguments: Sequence[str], tmp: Path, cwd: Path = ROOT) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(tmp), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes: Sequence[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not alive


@pytest.mark.timeout(LIMIT_S + 30)
def test_the_demo_accounts_for_every_task_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = start(["-m", "examples.demo"], tmp_path)
    out, err = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 0, out + err
    assert "Every task is accounted for." in out
    assert "1000 submitted = 940 accepted + 60 duplicates" in out
    assert "0 twice, 0 lost" in out
    assert "died there and were finished elsewhere" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.long),
    ],
)
def test_a_demo_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(["-m", "examples.demo"], tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "ap-south" in line:  # the last region is up: tasks are being submitted
            break
    children = family(process)
    assert len(children) >= 9  # three redis-servers, routers and worker pools
    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert all_gone(children)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 30)
def test_a_replay_finishes_what_was_accepted_and_nothing_twice(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:15:{n / 10:010.7f},100,{n % 40}" for n in range(300)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    summary = tmp_path / "summary.json"
    process = start(
        ["bench/replay.py", str(trace), "--speed", "20", "--json", str(summary)], tmp_path
    )
    out, err = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 0, out + err
    counted = json.loads(summary.read_text())
    assert counted["accepted"] == counted["finished"] == counted["completed"] == 300
    assert (counted["refused"], counted["twice"]) == (0, 0)


@pytest.mark.timeout(LIMIT_S)
def test_up_serves_the_built_in_app_in_an_empty_folder_until_it_is_told_to_stop(
    tmp_path: Path,
) -> None:
    config, folder = tmp_path / "regions.yaml", tmp_path / "empty"
    folder.mkdir()
    redis_port, grpc_port = free_ports(2)
    config.write_text(f"version: 1\nregions:\n  here: {{redis: redis://127.0.0.1:{redis_port}}}\n")
    command = ["-P", "-m", "tradewind.cli.main"]
    up = start([*command, "up", "--config", str(config), "--port", str(grpc_port)], folder, folder)
    assert up.stdout is not None
    try:
        assert up.stdout.readline().startswith(f"ready grpc=127.0.0.1:{grpc_port} http=")
        children = family(up)
        submit = start(
            [
                *command,
                "submit",
                "echo",
                '{"a": 1}',
                "--wait",
                "--router",
                f"127.0.0.1:{grpc_port}",
            ],
            folder,
        )
        out, err = submit.communicate(timeout=60)
        assert submit.returncode == 0, err
        assert json.loads(out) == {"a": 1, "region": "here", "attempt": 1}
    finally:
        up.send_signal(signal.SIGTERM)
        _, err = up.communicate(timeout=60)
    assert up.returncode == 0, err
    assert all_gone(children)


@pytest.mark.timeout(LIMIT_S)
def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        config = tmp_path / "regions.yaml"
        [redis_port] = free_ports(1)
        config.write_text(
            f"version: 1\nregions:\n  here: {{redis: redis://127.0.0.1:{redis_port}}}\n"
        )
        up = start(
            ["-m", "tradewind.cli.main", "up", "--config", str(config), "--port", port],
            tmp_path,
            tmp_path,
        )
        out, err = up.communicate(timeout=60)
    assert (up.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert port in err


def test_the_sink_verifies_signatures_and_fails_for_the_region_it_is_told_to() -> None:
    import urllib.error
    import urllib.request

    from examples.shop import sign
    from examples.sink import Sink

    def send(region: str, secret: str, path: str = "/hooks/1") -> int:
        stamp = int(time.time())  # noqa: TID251 - as a stranger's client would
        request = urllib.request.Request(
            sink.url + path,
            data=b"{}",
            headers={
                "Webhook-Id": "m1",
                "Webhook-Timestamp": str(stamp),
                "Webhook-Signature": sign(secret, "m1", stamp, b"{}"),
                "X-Sent-From": region,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    sink = Sink("right", on_taken=lambda _: None)
    sink.start()
    try:
        assert send("eu-west", "right") == 200
        assert send("eu-west", "wrong") == 401
        sink.break_for("us-east")
        assert send("us-east", "right") == 503
        assert send("eu-west", "right", "/down/1") == 500
        assert [each.region for each in sink.deliveries()] == ["eu-west"]
    finally:
        sink.close()
