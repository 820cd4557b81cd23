"""The options of `write_server_files`."""

import dataclasses
import ipaddress
import re
from collections.abc import Mapping, Sequence
from importlib import metadata

from elmo_tf.threads import num_cores

# Pattern and description of each text option. They are used in URLs, Kubernetes names and YAML.
_TEXTS = {
    "name": (
        r"[A-Za-z]([\w-]{0,38}[A-Za-z0-9])?",
        "at most 40 letters, digits, - and _, with a letter first and no - or _ last",
    ),
    "base_path": (r"(/[\w.-]+)+", "an absolute path of letters, digits, -, _ and ."),
    "image": (r"[\w./:@-]+", "the name of an image with its tag"),
}
_LABEL = r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?"


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of TF Serving for one model.

    Args:
        name: the model's name in requests: letters, digits, `-` and `_`.
        latest: int >= 1. The number of newest versions to load, without `versions` and `labels`.
        versions: `"all"`, or the numbers of the versions to load instead of the newest ones.
        labels: names for versions, such as `{"stable": 1}`. The labelled versions are loaded, other
            ones only if `versions` includes them.
        base_path: path of the model in the container. Defaults to `/models/NAME`.
        image: container image with its tag. Defaults to `tensorflow/serving` in the version of the
            installed tensorflow-serving-api.
        cores: int >= 1. Cores of the server. Defaults to those of this machine.
        max_batch_size: int >= 1. Maximum number of sentences per batch; TF Serving rejects larger
            requests.
        host: address of this machine to which the Compose file binds the ports.
        port, rest_port: ports of this machine in the Compose file.

    Raises:
        ValueError: a value is not allowed.
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
        for field, (pattern, allowed) in _TEXTS.items():
            if not re.fullmatch(pattern, getattr(self, field), re.ASCII):
                raise ValueError(f"`{field}` must be {allowed}, not {getattr(self, field)!r}.")
        for label in self.labels:
            if not re.fullmatch(_LABEL, label, re.ASCII):
                raise ValueError(
                    "A label must be letters, digits, -, _ and ., starting and ending with a "
                    f"letter or digit, not {label!r}."
                )
        if isinstance(self.versions, str | int) and self.versions != "all":
            raise ValueError(f"`versions` must be 'all' or numbers, not {self.versions!r}.")
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            raise ValueError(
                f"`host` must be an address of this machine, such as 127.0.0.1, not {self.host!r}."
            ) from None
        for field in ("latest", "cores", "max_batch_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"`{field}` must be at least 1, not {getattr(self, field)}.")
        for field in ("port", "rest_port"):
            if not 1 <= getattr(self, field) <= 65_535:
                raise ValueError(
                    f"`{field}` must be a port, from 1 to 65535, not {getattr(self, field)}."
                )
        if self.latest > 1 and (self.versions or self.labels):
            raise ValueError(
                "`latest` excludes `versions` and `labels`: TF Serving loads either the newest "
                "versions or those that are named. Pass `versions`."
            )
        if self.port == self.rest_port:
            raise ValueError(f"`port` and `rest_port` must differ, but are both {self.port}.")

    @property
    def named_versions(self) -> list[int]:
        """The versions given by number or label; empty with `versions="all"`."""
        if self.versions == "all":
            return []
        return sorted({*self.versions, *self.labels.values()})

    def loaded(self, found: Sequence[int]) -> list[int]:
        """Returns the versions, out of those found in a folder, that the server loads.

        Raises:
            ValueError: a version given by number or label does not exist.
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
