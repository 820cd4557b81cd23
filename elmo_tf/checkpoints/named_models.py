"""Checkpoints from elsewhere: models with a name, downloads, archives, and the Hugging Face Hub.

`elmo-tf models` lists the table `MODELS`. This module imports neither TensorFlow nor Keras.
"""

import dataclasses
import os
import re
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from absl import logging

from elmo_tf.lazy import require_extra

HUB = "hf://"
_ZIP, _GZIP = b"PK", b"\x1f\x8b"  # the first bytes of archives
_MAX_EXPANSION = 100  # bytes of files per byte of an archive
# The files by which a model is recognized in an archive, of ELMoForManyLangs or the original.
_MODEL_FILES = ("encoder.pkl", "options.json")


@dataclasses.dataclass(frozen=True)
class NamedModel:
    """A model that is part of the package or downloaded when it is first used."""

    name: str
    text: str  # the language, and if known the size, of the training text
    output_dim: int | None  # width of a token's vector in one layer; None: not known
    million_parameters: float | None
    license: str | None
    source: str
    addresses: tuple[str, ...] = ()  # of its files, or of one zip file
    # The published ones, by file name, with the algorithm: "sha256:…".
    checksums: Mapping[str, str] = dataclasses.field(default_factory=dict)
    package_folder: str | None = None  # in `elmo_tf.saved_models`, if it is part of the package

    @property
    def is_built_in(self) -> bool:
        """Whether the model is part of the package."""
        return self.package_folder is not None

    @property
    def folder(self) -> Path:
        """The directory of the files, which `fetch` fills."""
        if self.is_built_in:
            return Path(str(resources.files("elmo_tf.saved_models") / self.package_folder))
        return cache_folder(self.name)

    @property
    def files(self) -> list[Path]:
        """The files that are on this machine."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path for path in paths if path.is_file() and not path.name.startswith("."))

    def fetch(self) -> Path:
        """Downloads missing files, and returns `folder`.

        Raises:
            OSError: a file cannot be downloaded. It names the files and where to put them.
            ValueError: an archive is damaged or holds no ELMo model.
        """
        try:
            for address in self.addresses:
                if not address.endswith(".zip"):
                    checksum = self.checksums.get(address.rpartition("/")[2])
                    cached_file(address, self.folder, checksum)
                elif not self.files:
                    self._fetch_archive(address)
        except OSError as error:
            raise OSError(
                f"{error}. To install the model {self.name} without a network, download "
                f"{' and '.join(self.addresses)} elsewhere, and copy to {self.folder} without "
                "renaming (of a .zip, the files in it)."
            ) from error
        return self.folder

    def _fetch_archive(self, address: str) -> None:
        """Downloads and unpacks an archive. The folder appears when it is complete."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=self.folder.parent) as part:
            unpacked = Path(part, "unpacked")
            unpack(cached_file(address, Path(part)), unpacked)
            files = sorted(path for path in unpacked.rglob("*") if path.is_file())
            home = next((path.parent for path in files if path.name in _MODEL_FILES), None)
            if home is None:
                names = ", ".join(path.name for path in files[:9])
                raise ValueError(f"{address} is not an ELMo model: it holds {names}.")
            try:
                os.replace(home, self.folder)
            except OSError:
                if not self.files:  # else another process was faster
                    raise


_SEQVEC = "https://rostlab.org/~deepppi/embedding_repo/embedding_models/seqvec"
REPOSITORY = "http://vectors.nlpl.eu/repository"
_PETERS = ("Apache-2.0", "Peters et al. 2018")
_CONTRIBUTED = "contributed to AllenNLP"

# ELMoForManyLangs (Che et al. 2018): the languages of its archives, 11/136.zip to 11/179.zip.
LANGUAGES = (  # noqa: SIM905
    "ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu id it ja ko la lv nl nb nn "
    "pl pt ro ru sk sl sv tr ug uk ur vi zht"
).split()
_FIRST_ARCHIVE = 136


def _allennlp(folder: str, name: str = "", weights: str = "weights.hdf5") -> tuple[str, str]:
    stem = f"https://allennlp.s3.amazonaws.com/models/elmo/{folder}/elmo_{name or folder}"
    return f"{stem}_options.json", f"{stem}_{weights}"


_MODELS = (
    NamedModel(
        *("small-en", "English, 44 M tokens", 384, 6.8, "Apache-2.0", "elmo_tf"),
        package_folder="small_en",
    ),
    NamedModel(
        *("small-ko", "Korean, 35 M tokens", 384, 6.8, "Apache-2.0", "elmo_tf"),
        package_folder="small_ko",
    ),
    NamedModel(
        *("small", "English, 769 M tokens", 256, 13.6, *_PETERS),
        _allennlp("2x1024_128_2048cnn_1xhighway"),
        {
            "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5": "sha256:"
            "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229"
        },
    ),
    NamedModel(
        *("medium", "English, 769 M tokens", 512, 28.0, *_PETERS),
        _allennlp("2x2048_256_2048cnn_1xhighway"),
    ),
    NamedModel(
        *("original", "English, 769 M tokens", 1024, 93.6, *_PETERS),
        _allennlp("2x4096_512_2048cnn_2xhighway"),
    ),
    NamedModel(
        *("5.5B", "English, 5.5 billion tokens", 1024, 93.6, *_PETERS),
        _allennlp("2x4096_512_2048cnn_2xhighway_5.5B"),
    ),
    NamedModel(
        *("pubmed", "English, PubMed", 1024, 93.6, None, _CONTRIBUTED),
        _allennlp(
            *("contributed/pubmed", "2x4096_512_2048cnn_2xhighway", "weights_PubMed_only.hdf5")
        ),
    ),
    NamedModel(
        *("pt", "Portuguese", None, None, None, _CONTRIBUTED),
        _allennlp("contributed/pt", "pt"),
    ),
    NamedModel(
        *("seqvec", "proteins, UniRef50", 1024, 93.6, None, "Heinzinger et al. 2019"),
        (f"{_SEQVEC}/options.json", f"{_SEQVEC}/weights.hdf5"),
        {
            "options.json": "md5:cede355187778de3ac302a83c761f5f9",
            "weights.hdf5": "md5:0249d59249a50b43b79f641ff2ba7e88",
        },
    ),
    *(
        NamedModel(
            *(f"manylangs-{language}", language, 1024, None, None, "Che et al. 2018"),
            (f"{REPOSITORY}/11/{archive}.zip",),
        )
        for archive, language in enumerate(LANGUAGES, start=_FIRST_ARCHIVE)
    ),
)
MODELS = {model.name: model for model in _MODELS}


def find_named_model(name: Any) -> NamedModel | None:
    """Returns the model with this name, a key of `MODELS` or `nlpl-N`.

    None if there is none, or if `name` is a path that exists.
    """
    if not isinstance(name, str) or os.path.exists(name):
        return None
    number = re.fullmatch(r"nlpl-([1-9]\d*)", name)
    if number is None:
        return MODELS.get(name)
    index = int(number[1]) - _FIRST_ARCHIVE
    if 0 <= index < len(LANGUAGES):
        return MODELS[f"manylangs-{LANGUAGES[index]}"]
    addresses = (f"{REPOSITORY}/20/{number[1]}.zip",)
    return NamedModel(name, "see meta.json", None, None, None, "NLPL repository", addresses)


def brief_names() -> str:
    """The names for messages: those of one family are not listed singly."""
    single = [model for model in MODELS.values() if not model.name.startswith("manylangs-")]
    names = [f"{model.name} (included)" if model.is_built_in else model.name for model in single]
    return ", ".join([*names, "manylangs-de and other languages", "nlpl-N"])


def cache_folder(name: str) -> Path:
    """Returns the directory `elmo_tf/NAME` in Keras's cache: `KERAS_HOME` or `~/.keras`."""
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    return Path(os.path.expanduser(home), "elmo_tf", name)


def cached_file(address: str, folder: Path, checksum: str | None = None) -> Path:
    """Downloads a file with pooch, unless the directory has it, and returns its path.

    The file keeps its name, and appears when it is complete and valid. Several processes may
    download it at once. A file with another `checksum`, such as "sha256:…", is downloaded again.
    An `OSError` names the URL and the directory.
    """
    import pooch  # here, because it makes the start of every command slower

    pooch.get_logger().setLevel("WARNING")
    name = Path(urlsplit(address).path).name
    try:
        return Path(pooch.retrieve(address, checksum, name, folder, downloader=_download))
    except (OSError, ValueError) as error:  # ValueError: a wrong checksum, or a web page
        reason = " ".join(str(error).split())
        raise OSError(f"Cannot download {address} to {folder}: {reason}") from error


def _download(address: str, file: str, others: Any) -> None:
    import pooch

    logging.info("Downloading %s.", address)
    pooch.HTTPDownloader(progressbar=sys.stderr.isatty())(address, file, others)
    with open(file, "rb") as content:
        if content.read(64).lstrip().startswith(b"<"):
            raise ValueError("the response is a web page. Does the network require a login?")


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that `unpack` reads, by its first bytes."""
    return _start(path) in (_ZIP, _GZIP)


def unpack(archive: Path, folder: str | os.PathLike) -> None:
    """Unpacks the files and folders of a zip file or a compressed tar file into a directory.

    Raises:
        ValueError: the file is damaged, its content is more than 100 times as large, or it has a
            link, a device or a path outside the directory. Links are refused because Python's
            filter lets some of them lead outside (its issue 135034).
    """
    damage = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError)
    try:
        if _start(archive) == _GZIP:
            with tarfile.open(archive, "r:gz") as opened:
                size = 0
                for member in opened:
                    if not (member.isreg() or member.isdir()):
                        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
                    _check_size(archive, size := size + member.size)
                opened.extractall(folder, filter="data")
        else:
            with zipfile.ZipFile(archive) as opened:
                _check_size(archive, sum(entry.file_size for entry in opened.infolist()))
                opened.extractall(folder)
    except damage as error:  # RuntimeError: of an encrypted zip file
        raise ValueError(f"Cannot unpack {archive}: {error}") from None


def _check_size(archive: Path, size: int) -> None:
    if size > _MAX_EXPANSION * archive.stat().st_size:
        raise OSError(f"its files are more than {_MAX_EXPANSION} times as large as it")


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_ZIP))


def hub_folder(name: str, patterns: Iterable[str]) -> Path:
    """Downloads `hf://owner/name` or `hf://owner/name@revision` from the Hugging Face Hub.

    The library's settings apply, such as `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN`. Only files
    that match the patterns are downloaded. Returns the directory in the Hub's cache.

    Raises:
        FileNotFoundError: the name is not valid, the repository or the revision does not exist or
            is private, or it is not in the cache and the Hub cannot be reached.
        ImportError: the package huggingface_hub is not installed.
    """
    hub = require_extra("huggingface_hub", "huggingface", f"The checkpoint {name}")
    repository, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(
            hub.snapshot_download(
                repository, revision=revision or None, allow_patterns=sorted(patterns)
            )
        )
    except Exception as error:  # of the Hub, its HTTP library or the file system
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FileNotFoundError(f"Cannot download {name}: {reason[:500]}") from error
