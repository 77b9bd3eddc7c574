"""Rewrite where the regions of a regions.yaml live, and leave every other character alone."""

import json
from collections.abc import Mapping

import yaml


def relocate_regions(text: str, urls: Mapping[str, str]) -> str:
    """Give `text` with `regions.NAME.redis` replaced by `urls[NAME]`.

    Comments, order and layout stay, so that messages about the copy still fit the original.
    `text` must be a file that `regions.load` accepts, and must name every region in `urls`
    (KeyError). Raises yaml.YAMLError if it is not YAML.
    """
    regions = _child(yaml.compose(text, Loader=yaml.SafeLoader), "regions")
    places = {name: _child(_child(regions, name), "redis") for name in urls}
    # From the end, so that earlier marks stay right.
    for name, node in sorted(places.items(), key=lambda p: p[1].start_mark.index, reverse=True):
        start, end = node.start_mark.index, node.end_mark.index
        # A block mapping ends where the next key begins; only its own lines may go.
        kept_space = text[start:end][len(text[start:end].rstrip()) :]
        text = text[:start] + json.dumps(urls[name]) + kept_space + text[end:]
    return text


def _child(parent: yaml.Node | None, key: str) -> yaml.Node:
    if isinstance(parent, yaml.MappingNode):
        for name, value in parent.value:
            if name.value == key:
                return value
    raise KeyError(key)
