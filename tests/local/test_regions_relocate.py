import pytest

from tradewind.regions_relocate import relocate_regions

URL = "redis://127.0.0.1:9"

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
    "other regions stay": (
        "regions: {us: {redis: redis://h:1}, eu: {redis: redis://h:1}}",
        'regions: {us: {redis: redis://h:1}, eu: {redis: "redis://127.0.0.1:9"}}',
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_relocate_regions(text: str, expected: str) -> None:
    relocated = relocate_regions(text, {"eu": URL})
    assert relocated == expected


@pytest.mark.parametrize("text", ["", "regions: {}", "regions: [eu]", "regions: {eu: {}}"])
def test_a_region_that_is_not_there_is_a_key_error(text: str) -> None:
    with pytest.raises(KeyError):
        relocate_regions(text, {"eu": URL})
