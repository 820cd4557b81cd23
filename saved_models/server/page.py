"""The arrow from a model server to a person: the page at `/` of the REST port, a few plain files.

The page itself asks the server's REST interface, as any other client does.
"""

import json
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

_CONTENT_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "elements.js": "text/javascript; charset=utf-8",
    "heat_maps.js": "text/javascript; charset=utf-8",
    "vectors.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# What is typed into the page, or comes from a model, can bring in no script, style or address.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """What a browser gets for one path.

    Attributes:
        content: the bytes of the file.
        headers: its `Content-Type`, and what browsers shall not do with it.
    """

    content: bytes
    headers: dict[str, str]


def find(path: str, model_names: Sequence[str]) -> PageFile | None:
    """Returns what the page has at `path`, or `None`.

    Args:
        path: of a request, without its query, such as `/page.js`.
        model_names: what the server calls its models; `/models.json` tells them.
    """
    if path == "/models.json":
        return _page_file(json.dumps({"models": list(model_names)}).encode(), "application/json")
    name = "index.html" if path == "/" else path.removeprefix("/")
    if name not in _CONTENT_TYPES:
        return None
    content = resources.files("elmo_tf.saved_models.server").joinpath("page", name).read_bytes()
    return _page_file(content, _CONTENT_TYPES[name])


def _page_file(content: bytes, content_type: str) -> PageFile:
    return PageFile(content, {"Content-Type": content_type, **_HEADERS})
