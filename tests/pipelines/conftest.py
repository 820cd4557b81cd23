"""Exported models, and a filesystem that only Beam can read."""

import pytest

from elmo_tf.saved_models import export

PREFIX = "copied://host"


@pytest.fixture(scope="session")
def exported_elmo(tmp_path_factory, elmo):
    """A folder of two versions; version 1 is not a valid model."""
    directory = tmp_path_factory.mktemp("exported")
    export(elmo, directory, version=2, check=False)
    (directory / "1").mkdir()
    (directory / "1" / "saved_model.pb").touch()
    return directory


@pytest.fixture(scope="session")
def exported_forward_bilm(tmp_path_factory, forward_bilm):
    """The folder of one version."""
    return export(forward_bilm, tmp_path_factory.mktemp("exported_forward"), check=False)


@pytest.fixture(scope="session")
def remote():
    """A function that maps a local path to the same file on a filesystem with another scheme."""
    from apache_beam.io.filesystem import CompressionTypes, FileMetadata
    from apache_beam.io.localfilesystem import LocalFileSystem

    class CopiedFileSystem(LocalFileSystem):
        """`copied://host/tmp/a` is the file `/tmp/a`."""

        @classmethod
        def scheme(cls):
            return "copied"

        def _list(self, dir_or_prefix):
            for file in super()._list(dir_or_prefix.removeprefix(PREFIX)):
                yield FileMetadata(PREFIX + file.path, file.size_in_bytes, 0.0)

        def _url_dirname(self, url_or_path):
            return PREFIX + super()._url_dirname(url_or_path.removeprefix(PREFIX))

        def exists(self, path):
            return super().exists(path.removeprefix(PREFIX))

        def metadata(self, path):
            return FileMetadata(path, super().size(path.removeprefix(PREFIX)), 0.0)

        def open(
            self, path, mime_type="application/octet-stream", compression_type=CompressionTypes.AUTO
        ):
            return super().open(path.removeprefix(PREFIX), mime_type, compression_type)

    # Beam searches the subclasses of `FileSystem`, so the class must stay referenced.
    return lambda path: f"{CopiedFileSystem.scheme()}://host{path}"
