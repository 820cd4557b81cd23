"""The static files of the web page at `/` of the REST port.

The page calls the server's REST interface, like any other client.
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
# User input and model output cannot load scripts, styles or other resources.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """The response to one path: content and HTTP headers."""

    content: bytes
    headers: dict[str, str]


def find(path: str, model_names: Sequence[str]) -> PageFile | None:
    """Returns the file of the page at `path`, or `None`.

    Args:
        path: of a request, without its query, such as `/page.js`.
        model_names: the names of the served models, returned as `/models.json`.
    """
    name = "index.html" if path == "/" else path.removeprefix("/")
    if path == "/models.json":
        content, content_type = (
            json.dumps({"models": list(model_names)}).encode(),
            "application/json",
        )
    elif name in _CONTENT_TYPES:
        content_type = _CONTENT_TYPES[name]
        content = resources.files("elmo_tf.saved_models.server").joinpath("page", name).read_bytes()
    else:
        return None
    return PageFile(content, {"Content-Type": content_type, **_HEADERS})
