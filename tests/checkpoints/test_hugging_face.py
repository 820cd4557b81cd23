"""Checkpoints on the Hugging Face Hub, which a local server imitates."""

import hashlib
import http.server
import json
import shutil
import urllib.parse

import huggingface_hub
import huggingface_hub.constants
import pytest

from elmo_tf import load_bilm, load_language_model, save_bilm
from elmo_tf.checkpoints.load import load_config
from elmo_tf.models.bilm import model_digest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "owner/elmo-xx"


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves the files of one repository at the URLs that huggingface_hub requests."""

    folder = None

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        if path.startswith(f"/api/models/{REPOSITORY}"):
            self._send_description(path)
        elif path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            self._send((self.folder / path.rpartition("/")[2]).read_bytes())
        else:
            self._send(b"", 404, {"X-Error-Code": "RepoNotFound"})

    def _send_description(self, path):
        revision = path.partition("/revision/")[2]
        if revision not in ("", "main", "v1", COMMIT):
            self._send(b"", 404, {"X-Error-Code": "RevisionNotFound"})
            return
        files = sorted(file for file in self.folder.iterdir() if file.is_file())
        names = [{"rfilename": file.name} for file in files]
        content = {"id": REPOSITORY, "sha": COMMIT, "siblings": names}
        if "/tree/" in path:
            facts = {"type": "file", "oid": "0"}
            content = [{**facts, "path": one.name, "size": one.stat().st_size} for one in files]
        self._send(json.dumps(content).encode(), 200, {"Content-Type": "application/json"})

    def _send(self, data, status=200, headers=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", hashlib.sha256(data).hexdigest())
        self.send_header("X-Repo-Commit", COMMIT)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def repository(tmp_path, monkeypatch, start_server):
    """The folder of a repository on the Hub."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setattr(Hub, "folder", folder)
    address = start_server(Hub)
    for name, value in (
        ("HF_HUB_CACHE", str(tmp_path / "cache")),
        ("ENDPOINT", address),
        ("HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"),
    ):
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    return folder


def check(source, bilm):
    assert model_digest(load_bilm(source)) == model_digest(bilm)


@pytest.mark.parametrize("format", ["hdf5", "safetensors"])
def test_a_repository_is_loaded_and_cached(format, repository, bilm, monkeypatch):
    save_bilm(bilm, repository, format=format)
    (repository / "pytorch_model.bin").write_bytes(b"not downloaded")

    check(f"hf://{REPOSITORY}", bilm)

    assert load_config(f"hf://{REPOSITORY}@v1") == bilm.config
    shutil.rmtree(repository)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    check(f"hf://{REPOSITORY}", bilm)


def test_a_repository_with_a_lexicon_is_loaded(repository, manylangs):
    shutil.copytree(manylangs, repository, dirs_exist_ok=True)

    check(f"hf://{REPOSITORY}", load_bilm(manylangs))  # the digest includes the lexicon


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("owner/other", "Cannot download hf://owner/other: RepositoryNotFoundError"),
        (f"{REPOSITORY}@v2", "Cannot download hf://owner/elmo-xx@v2: RevisionNotFoundError"),
        (REPOSITORY, "There is no .*options.json in .*elmo-xx"),
        ("owner/a--b..c", "Cannot download hf://owner/a--b..c: HFValidationError"),
    ],
)
def test_repositories_that_cannot_be_loaded_raise_an_error(name, message, repository):
    (repository / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")

    for load in (load_bilm, load_language_model):
        with pytest.raises(FileNotFoundError, match=message):
            load(f"hf://{name}")


def test_a_repository_that_is_not_in_the_cache_needs_the_network(repository, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match=r"Cannot download hf://owner/elmo-xx: LocalEntry"):
        load_bilm(f"hf://{REPOSITORY}")
