"""Neighbours of words in context ─► what people read of them, in Markdown."""

import os
from collections.abc import Mapping
from typing import Any

from elmo_tf.commands.reports import markdown_table

# Words of context to each side.
_WINDOW = 8


def neighbour_tables(content: Mapping[str, Any]) -> str:
    """What `elmo-tf neighbors` writes as JSON, as headings and tables."""
    index = content["index"]
    parts = [
        f"{index['folder']}: {index['tokens']:,} tokens in {index['sentences']:,} sentences, "
        f"{index['types']:,} types, by the biLM {index['model']}."
    ]
    for about in content["words"]:
        parts.append(f"# {_visible(about['word'])} ({about['count']:,} times)")
        for key, name in (("vectors", "nearest by --vectors"), ("types", "nearest in layer 0")):
            if key in about:
                rows = [(_visible(one["token"]), f"{one['similarity']:.3f}") for one in about[key]]
                parts.append(markdown_table([name, "similarity"], rows))
        for occurrence in about["occurrences"]:
            parts.append(f"## {_marked(occurrence)}\n\n{_origin(occurrence)}")
            for layer, neighbours in occurrence["neighbors"].items():
                rows = [
                    (_marked(one), f"{one['similarity']:.3f}", _origin(one)) for one in neighbours
                ]
                parts.append(markdown_table([f"layer {layer}", "similarity", "from"], rows))
    return "\n\n".join(parts)


def _marked(found: Mapping[str, Any]) -> str:
    """A token between asterisks, with some words to each side."""
    tokens, position = found["sentence"].split(" "), found["position"]
    first, end = max(0, position - _WINDOW), position + 1 + _WINDOW
    before, after = tokens[first:position], tokens[position + 1 : end]
    before = ["…", *before] if first else before
    after = [*after, "…"] if end < len(tokens) else after
    words = [_visible(word) for word in (*before, tokens[position], *after)]
    words[len(before)] = f"**{words[len(before)]}**"
    return " ".join(words)


def _origin(found: Mapping[str, Any]) -> str:
    if found["file"] is None:
        return "as given"
    return f"{_visible(os.path.basename(found['file']))}:{found['line']}"


def _visible(text: str) -> str:
    from elmo_tf.evaluation.visible_text import visible

    return visible(text).replace("|", "\\|")
