"""What the stock TF Serving is to serve, and where: the options of `write_server_files`."""

import dataclasses
import ipaddress
import re
from collections.abc import Mapping, Sequence
from importlib import metadata

from elmo_tf.threads import num_cores

# What each text may be, as a pattern and in words. Names end up in URLs and in the names of
# Kubernetes, and all of them in YAML.
_TEXTS = {
    "name": (
        r"[A-Za-z]([\w-]{0,38}[A-Za-z0-9])?",
        "at most 40 letters, digits, - and _, from a letter to a letter or digit",
    ),
    "base_path": (r"(/[\w.-]+)+", "an absolute path of letters, digits, -, _ and ."),
    "image": (r"[\w./:@-]+", "the name of an image with its tag"),
}
_LABEL = r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?"


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How a model is served.

    Args:
        name: what requests call the model: letters, digits, `-` and `_`.
        latest: int >= 1. How many versions are loaded, the newest ones.
        versions: `"all"`, or the numbers of those to load; then `latest` does not count.
        labels: names for versions, such as `{"stable": 1}`. These versions are loaded, and others
            only if `versions` says so.
        base_path: of the model within the container. Defaults to `/models/NAME`.
        image: with its tag. Defaults to `tensorflow/serving` of the release of the installed
            tensorflow-serving-api.
        cores: int >= 1, that the server may use. Defaults to those of this machine.
        max_batch_size: int >= 1. Sentences that are computed together at most; TF Serving refuses a
            request of more.
        host: address of this machine to which the Compose file binds the ports.
        port, rest_port: of this machine, in the Compose file.

    Raises:
        ValueError: one is none of what it may be.
    """

    name: str = "elmo"
    latest: int = 1
    versions: Sequence[int] | str = ()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    base_path: str | None = None
    image: str | None = None
    cores: int | None = None
    max_batch_size: int = 64
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int = 8501

    def __post_init__(self):
        defaults = {
            "base_path": lambda: f"/models/{self.name}",
            "image": lambda: f"tensorflow/serving:{metadata.version('tensorflow-serving-api')}",
            "cores": num_cores,
        }
        for field, default in defaults.items():
            if getattr(self, field) is None:
                object.__setattr__(self, field, default())
        self._check_texts()
        self._check_numbers()

    def _check_texts(self) -> None:
        for field, (pattern, allowed) in _TEXTS.items():
            if not re.fullmatch(pattern, getattr(self, field), re.ASCII):
                raise ValueError(f"`{field}` must be {allowed}, not {getattr(self, field)!r}.")
        for label in self.labels:
            if not re.fullmatch(_LABEL, label, re.ASCII):
                raise ValueError(
                    "A label must be letters, digits, -, _ and ., from a letter or digit to one, "
                    f"not {label!r}."
                )
        if isinstance(self.versions, str) and self.versions != "all":
            raise ValueError(f"`versions` must be 'all' or numbers, not {self.versions!r}.")
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            raise ValueError(
                f"`host` must be an address of this machine, such as 127.0.0.1, not {self.host!r}."
            ) from None

    def _check_numbers(self) -> None:
        for field in ("latest", "cores", "max_batch_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"`{field}` must be at least 1, not {getattr(self, field)}.")
        for field in ("port", "rest_port"):
            if not 1 <= getattr(self, field) <= 65_535:
                raise ValueError(
                    f"`{field}` must be a port, from 1 to 65535, not {getattr(self, field)}."
                )
        if self.port == self.rest_port:
            raise ValueError(f"`port` and `rest_port` must differ, but are both {self.port}.")

    @property
    def named_versions(self) -> list[int]:
        """The versions that are loaded because they are named; empty if the policy is another."""
        if self.versions == "all":
            return []
        return sorted({*self.versions, *self.labels.values()})

    def loaded(self, found: Sequence[int]) -> list[int]:
        """Those of the versions found in a folder that a server loads.

        Raises:
            ValueError: one that is named is not among them.
        """
        missing = {*self.named_versions, *self.labels.values()} - set(found)
        if missing:
            raise ValueError(
                f"There is no version {', '.join(map(str, sorted(missing)))}. "
                f"Found: {', '.join(map(str, sorted(found)))}."
            )
        if self.versions == "all":
            return sorted(found)
        return self.named_versions or sorted(found)[-self.latest :]
