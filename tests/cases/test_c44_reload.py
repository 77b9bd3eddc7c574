"""Case C44: a bad policy file takes no router down, and changes nothing."""

import asyncio
import itertools
import re
import resource
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tests.harness.patience import until
from tradewind import Client
from tradewind.local.leash import leashed
from tradewind.local.scratch import RedisProcess

ROOT = Path(__file__).parents[2]
EVERY_S = 0.02  # 50 submits a second
MEMORY_BYTES = 50 * 1024 * 1024
START_S = 5.0
MIB = 1024 * 1024


class Place:
    """Where the file is mounted: as Kubernetes mounts a ConfigMap, a link into `..data`."""

    def __init__(self, home: Path, servers: Sequence[RedisProcess]) -> None:
        self.home, self.path = home, home / "regions.yaml"
        regions = [
            f"  eu-west: {{redis: {servers[0].url}, residency: [eu]}}",
            f"  us-east: {{redis: {servers[1].url}, residency: [us]}}",
        ]
        rule = "{name: personal, match: {labels: {data: pii}}, residency: [eu]}"
        self._text = "\n".join(
            ["version: 1", "partitions: 16", "regions:", *regions, f"rules: [{rule}]"]
        )
        self._versions = itertools.count()

    def good(self) -> str:
        """A file that is in order, and says something new."""
        attempts = 2 + next(self._versions)
        return f"{self._text}\nqueues: {{mail: {{attempts: {attempts}}}}}\n"

    def swap(self, text: str) -> None:
        """Put a file there by the swap of one link."""
        version = self.home / f"..{next(self._versions)}"
        version.mkdir()
        (version / "regions.yaml").write_text(text)
        (self.home / "..data_tmp").symlink_to(version.name)
        (self.home / "..data_tmp").replace(self.home / "..data")
        if not self.path.is_symlink():
            self.path.unlink(missing_ok=True)
            self.path.symlink_to("..data/regions.yaml")


def says(text: str) -> Callable[[Place], None]:
    return lambda place: place.swap(text)


def cut_off(place: Place) -> None:
    text = place.good()
    place.swap(text[: len(text) // 2])


def without_regions(place: Place) -> None:
    lines = place.good().splitlines()
    place.swap("\n".join(line for line in lines if not line.startswith(("  ", "regions"))))


def unreadable(place: Place) -> None:
    """A directory: root may read every file."""
    place.path.unlink()
    place.path.mkdir()


def gone(place: Place) -> None:
    place.path.unlink()


def readable_again(place: Place) -> None:
    if place.path.is_dir() and not place.path.is_symlink():
        place.path.rmdir()


#: 9 anchors that unfold to a thousand million values, in 400 bytes.
BOMB = "version: 1\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
DECISION = '"logger": "tradewind.decision"'  # a sample of what is decided meanwhile
#: How the file goes bad, and what the log says of it.
BAD: dict[str, tuple[Callable[[Place], None], str]] = {
    "broken syntax": (says("version: 1\nregions: {eu-west: [\n"), r"regions\.yaml:\d+:\d+: "),
    "an empty file": (says(""), r"regions\.yaml"),
    "cut off in the middle": (cut_off, r"regions\.yaml:\d+:\d+: "),
    "without regions": (without_regions, r"regions\.yaml:\d+:\d+: regions"),
    "a bomb": (says(BOMB), r"regions\.yaml:2:5: "),
    "50 MB": (says("# much ado\n" * (50 * MIB // 11)), r"regions\.yaml: is larger than 1 MiB"),
    "unreadable": (unreadable, r"regions\.yaml: is a directory"),
    "gone": (gone, r"regions\.yaml: there is no such file"),
}


class Router:
    """A router process, or a pool of them, and what it says."""

    def __init__(self, process: Process, grpc: str, http: str, log: Path) -> None:
        self.process, self.grpc, self._http, self._log = process, grpc, http, log

    async def metric(self, name: str) -> str:
        """Value or labels of the one sample of a metric."""

        def fetch() -> str:
            with urlopen(f"http://{self._http}/metrics", timeout=10) as page:
                return page.read().decode()

        found = re.findall(rf"^{name}(\S*) (\S+)$", await asyncio.to_thread(fetch), re.MULTILINE)
        return "" if len(found) != 1 else "".join(found[0])

    async def has_refused(self) -> bool:
        return await self.metric("tradewind_policy_reload_failed") == "1.0"

    def said(self) -> str:
        return self._log.read_text()

    def memory(self) -> int:
        """Of all its processes."""
        parent = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in (parent, *parent.children(recursive=True)))


@asynccontextmanager
async def routing(place: Place, log: Path, processes: int) -> AsyncGenerator[Router]:
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *leashed(command(place, processes)), cwd=ROOT, stdout=PIPE, stderr=file
        )
    assert process.stdout is not None
    _, grpc, http = (await process.stdout.readline()).decode().split()
    try:
        yield Router(process, grpc.removeprefix("grpc="), http.removeprefix("http="), log)
    finally:
        process.terminate()
        assert await process.wait() == 0


def command(place: Place, processes: int = 1) -> list[str]:
    argv = [sys.executable, "-m", "router", "--config", str(place.path), "--region", "eu-west"]
    ports = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    return [*argv, *ports, "--processes", str(processes)]


class Submits:
    """50 a second, half of them fenced; each must be stored, and where it always was."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.failures: list[Exception] = []
        self.stored = {"fenced": set[str](), "pinned": set[str]()}
        self.count = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self.count += 1
                group.create_task(self._one(fenced=self.count % 2 == 0))
                await asyncio.sleep(EVERY_S)

    async def _one(self, *, fenced: bool) -> None:
        try:
            if fenced:
                receipt = await self._client.submit("mail.send", {}, labels={"data": "pii"})
            else:
                receipt = await self._client.submit("mail.send", {}, pin_region="us-east")
            self.stored["fenced" if fenced else "pinned"].add(receipt.region)
        except Exception as error:  # noqa: BLE001 - what it is about
            self.failures.append(error)


@pytest.fixture
def place(tmp_path: Path, redis_servers: list[RedisProcess]) -> Place:
    place = Place(tmp_path / "mount", redis_servers)
    place.home.mkdir()
    place.swap(place.good())
    return place


@asynccontextmanager
async def submitting(router: Router) -> AsyncGenerator[None]:
    async with Client(router.grpc, origin_region="eu-west") as client:
        submits = Submits(client)
        running = asyncio.create_task(submits.run())
        await until(lambda: submits.count > 10, "submits go on")
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert submits.failures == []
        assert submits.stored == {"fenced": {"eu-west"}, "pinned": {"us-east"}}


@pytest.mark.parametrize(
    ("processes", "hurries"),
    [
        pytest.param(1, True, id="told by SIGHUP"),
        # Seen by the router itself, in 2 to 4 s each.
        pytest.param(1, False, id="unasked", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
        pytest.param(
            3, False, id="three processes", marks=[pytest.mark.long, pytest.mark.timeout(300)]
        ),
    ],
)
async def test_c44_no_bad_file_costs_a_submit_and_the_next_good_one_is_used(
    place: Place, tmp_path: Path, processes: int, *, hurries: bool
) -> None:
    async with routing(place, tmp_path / "log", processes) as router, submitting(router):

        def hurry() -> None:
            if hurries:
                router.process.send_signal(signal.SIGHUP)

        before = await in_force(router)
        memory = router.memory()
        for spoil, words in BAD.values():
            spoil(place)
            hurry()
            await until(router.has_refused, "the file is refused")
            said = [line for line in router.said().splitlines() if DECISION not in line]
            assert re.search(words, said[-1]), words
            assert await in_force(router) == before

            readable_again(place)
            place.swap(place.good())
            hurry()
            before = await follows(router, before)
        assert router.memory() - memory < MEMORY_BYTES * processes
        place.swap(place.good())  # and without a word, as Kubernetes does it
        await follows(router, before)
        assert router.process.returncode is None


async def in_force(router: Router) -> str:
    """The version of the policy file, by the metric: one, once the routers of a pool agree."""
    versions: list[str] = []

    async def is_one() -> bool:
        versions.append(await router.metric("tradewind_policy_info"))
        return bool(versions[-1])

    await until(is_one, "all work by one file")
    return versions[-1]


async def follows(router: Router, before: str) -> str:
    """Wait until another file is in force, and say which."""

    async def is_another() -> bool:
        refused = await router.has_refused()
        return not refused and await router.metric("tradewind_policy_info") not in {"", before}

    await until(is_another, "the good file is in force")
    return await in_force(router)


def children_s() -> float:
    """Processor time of all children so far: what a start takes if nothing else runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(spoil, id=name, marks=[] if name == "a bomb" else [pytest.mark.long])
        for name, (spoil, _) in BAD.items()
    ],
)
def test_c44_a_start_with_a_bad_file_is_a_sentence(
    place: Place, spoil: Callable[[Place], None]
) -> None:
    spoil(place)
    before_s = children_s()

    done = subprocess.run(command(place), cwd=ROOT, capture_output=True, text=True, check=False)

    assert children_s() - before_s < START_S
    assert done.returncode == 2
    assert "regions.yaml" in done.stderr
    assert "Traceback" not in done.stderr
