from pathlib import Path

import pytest

from tradewind.regions_relocate import relocate_regions

URL = "redis://127.0.0.1:9"
BASE = Path("/etc/tradewind")
RUNS = "regions: {eu: {redis: redis://h:1}}\nqueues:\n"
MOVED = 'regions: {eu: {redis: "redis://127.0.0.1:9"}}\nqueues:\n'
HOOK = "  c:\n    on_dead:\n      webhook: https://h/\n"
FOUND = '      secret_file: "/etc/tradewind/key"  # ours\n'

CASES = {
    "a plain value keeps its comment": (
        "regions:\n  eu:\n    redis: redis://h:1  # near\n    weight: 2\n",
        'regions:\n  eu:\n    redis: "redis://127.0.0.1:9"  # near\n    weight: 2\n',
    ),
    "a flow mapping keeps its shape": (
        "regions: {eu: {redis: redis://h:1, residency: [eu]}}",
        'regions: {eu: {redis: "redis://127.0.0.1:9", residency: [eu]}}',
    ),
    "a mapping is replaced as a whole": (
        "regions:\n  eu:\n    redis:\n      url: redis://h:1\n      username: x\n    weight: 2\n",
        'regions:\n  eu:\n    redis:\n      "redis://127.0.0.1:9"\n    weight: 2\n',
    ),
    "text outside ASCII does not shift it": (
        "# Überall\nregions: {eu: {redis: redis://h:1}} # £\n",
        '# Überall\nregions: {eu: {redis: "redis://127.0.0.1:9"}} # £\n',
    ),
    "a secret is found from anywhere": (
        RUNS + "  a: {}\n  b: {on_dead: {task: t}}\n" + HOOK + "      secret_file: key  # ours\n",
        MOVED + "  a: {}\n  b: {on_dead: {task: t}}\n" + HOOK + FOUND,
    ),
    "a secret that is found from anywhere stays": (
        RUNS + HOOK + "      secret_file: /run/key\n",
        MOVED + HOOK + '      secret_file: "/run/key"\n',
    ),
    "other regions stay": (
        "regions: {us: {redis: redis://h:1}, eu: {redis: redis://h:1}}",
        'regions: {us: {redis: redis://h:1}, eu: {redis: "redis://127.0.0.1:9"}}',
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_relocate_regions(text: str, expected: str) -> None:
    relocated = relocate_regions(text, {"eu": URL}, BASE)
    assert relocated == expected


@pytest.mark.parametrize("text", ["", "regions: {}", "regions: [eu]", "regions: {eu: {}}"])
def test_a_region_that_is_not_there_is_a_key_error(text: str) -> None:
    with pytest.raises(KeyError):
        relocate_regions(text, {"eu": URL}, BASE)
