"""The static files of the web page at `/` of the REST port.

The page calls the server's REST interface, like any other client.
"""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import PurePosixPath
from typing import NamedTuple

_FOLDER = resources.files("elmo_tf.saved_models.server").joinpath("page")
_NAMES = frozenset(file.name for file in _FOLDER.iterdir())
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
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
    elif name in _NAMES:
        content = _FOLDER.joinpath(name).read_bytes()
        content_type = _CONTENT_TYPES[PurePosixPath(name).suffix]
    else:
        return None
    return PageFile(content, {"Content-Type": content_type, **_HEADERS})
