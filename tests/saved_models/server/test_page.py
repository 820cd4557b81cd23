import re
from importlib import resources

from serving_requests import send

FILES = resources.files("elmo_tf.saved_models.server").joinpath("page")


def references(name):
    """The files that a file of the page refers to."""
    text = FILES.joinpath(name).read_text(encoding="utf-8")
    pattern = r"(?:src|href)=\"([^\"]*)\"" if name.endswith(".html") else r"from \"\./([^\"]*)\""
    return re.findall(pattern, text)


def test_the_page_may_fetch_from_its_own_server_only(server):
    for path in ("/", "/?from=mail", "/page.js", "/models.json"):
        status, headers, text = send(server, "GET", path)
        assert status == 200
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache"
        if path.startswith("/?") or path == "/":
            assert headers["Content-Type"] == "text/html; charset=utf-8"
            assert text == FILES.joinpath("index.html").read_text(encoding="utf-8")
    for path in ("/page/index.html", "/../server.py", "/%2e%2e/server.py", "/..%2fserver.py"):
        assert send(server, "GET", path)[0] == 400


def test_every_file_is_used_and_served_with_its_content_type(server):
    used, to_read = set(), ["index.html"]
    while to_read:
        name = to_read.pop()
        used.add(name)
        to_read += set(references(name)) - used
    assert used == {file.name for file in FILES.iterdir()}
    types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in used - {"index.html"}:
        status, headers, _ = send(server, "GET", f"/{name}")
        assert status == 200
        assert headers["Content-Type"].partition(";")[0] == types[name.rpartition(".")[2]]


def test_no_file_refers_to_another_host():
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|[\"'`(]//|@import", text)
