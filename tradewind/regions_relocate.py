"""Rewrite where the regions of a regions.yaml live, and leave every other character alone."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml


def relocate_regions(text: str, urls: Mapping[str, str], base: Path) -> str:
    """Give `text` with `regions.NAME.redis` replaced by `urls[NAME]`, to be read from anywhere.

    Files that it names start from `base`, its own directory, and are named in full.
    Comments, order and layout stay, so that messages about the copy still fit the original.
    `text` must be a file that `regions.load` accepts, and must name every region in `urls`
    (KeyError). Raises yaml.YAMLError if it is not YAML.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    regions = _child(root, "regions")
    places = [(_child(_child(regions, name), "redis"), url) for name, url in urls.items()]
    places += [(node, str(base / node.value)) for node in _secret_files(root)]
    # From the end, so that earlier marks stay right.
    for node, value in sorted(places, key=lambda p: p[0].start_mark.index, reverse=True):
        start, end = node.start_mark.index, node.end_mark.index
        # A block mapping ends where the next key begins; only its own lines may go.
        kept_space = text[start:end][len(text[start:end].rstrip()) :]
        text = text[:start] + json.dumps(value) + kept_space + text[end:]
    return text


def _secret_files(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Of webhooks; those of Redis go with its address."""
    with contextlib.suppress(KeyError):
        for _, queue in _child(root, "queues").value:
            with contextlib.suppress(KeyError):
                yield _child(_child(queue, "on_dead"), "secret_file")


def _child(parent: yaml.Node | None, key: str) -> yaml.Node:
    if isinstance(parent, yaml.MappingNode):
        for name, value in parent.value:
            if name.value == key:
                return value
    raise KeyError(key)
