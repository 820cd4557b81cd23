import json
import re
from importlib import resources

import pytest

from elmo_tf.saved_models.server import page
from rest_requests import get

FILES = resources.files("elmo_tf.saved_models.server").joinpath("page")


def references(name):
    """The files that a file of the page refers to."""
    text = FILES.joinpath(name).read_text(encoding="utf-8")
    pattern = r"(?:src|href)=\"([^\"]*)\"" if name.endswith(".html") else r"from \"\./([^\"]*)\""
    return re.findall(pattern, text)


def test_the_root_path_returns_the_page(server):
    status, headers, text = get(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert text == FILES.joinpath("index.html").read_text(encoding="utf-8")


def test_the_query_string_is_ignored(server):
    assert get(server, "/?from=mail")[2] == get(server, "/")[2]


@pytest.mark.parametrize("path", ["/", "/page.js", "/models.json"])
def test_the_page_may_fetch_from_its_own_server_only(server, path):
    headers = get(server, path)[1]
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-cache"


def test_every_file_is_used_and_served_with_its_content_type(server):
    found, to_read = set(), ["index.html"]
    while to_read:
        name = to_read.pop()
        found.add(name)
        to_read += set(references(name)) - found
    assert found == {file.name for file in FILES.iterdir()}
    types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in found - {"index.html"}:
        status, headers, _ = get(server, f"/{name}")
        assert status == 200
        assert headers["Content-Type"].partition(";")[0] == types[name.rpartition(".")[2]]


def test_no_file_refers_to_another_host():
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|[\"'`(]//|@import", text)


def test_models_json_lists_the_model_names(server):
    status, headers, text = get(server, "/models.json")
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert json.loads(text) == {"models": ["elmo"]}
    assert json.loads(page.find("/models.json", ["b", "a"]).content) == {"models": ["b", "a"]}


@pytest.mark.parametrize(
    "path", ["", "//", "/page/index.html", "/../page.py", "/%2e%2e/page.py", "/v1/models/elmo"]
)
def test_other_paths_are_not_part_of_the_page(path):
    assert page.find(path, ["elmo"]) is None
