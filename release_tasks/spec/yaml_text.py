"""Read YAML that somebody else wrote, with bounds: a small text must not become endless work."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_NODES = 100_000  # values once every alias is written out


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, of which plain YAML keeps the last without a word."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise ConstructorError(None, None, f"the key `{key.value}` is given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The document's value.

    Raises:
        ValueError: no valid YAML, a key given twice, an alias that holds itself, nesting too deep to read, or more
            than ``MAX_NODES`` values once every alias is written out.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _size(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("lists or mappings are nested too deeply") from error


def _size(node: Node, known: dict[int, int]) -> int:
    """Values below a node with aliases written out; each node is counted once, so a bomb costs nothing to see."""
    if id(node) in known:
        if known[id(node)] == 0:
            raise ValueError("an alias holds itself")
        return known[id(node)]
    known[id(node)] = 0  # being counted
    children: list[Node] = []
    if isinstance(node, MappingNode):
        children = [part for pair in node.value for part in pair]
    elif isinstance(node, SequenceNode):
        children = node.value
    total = 1 + sum(_size(child, known) for child in children)
    if total > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} values once every alias is written out")
    known[id(node)] = total
    return total
