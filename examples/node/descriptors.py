"""Writes TF Serving's service definitions to one file, for programs in other languages.

    python examples/node/descriptors.py tensorflow_serving.bin

The wheel of tensorflow-serving-api contains their descriptors, but no `.proto` files.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2


def main(path: str) -> None:
    """Writes both services of a model server and the files that they import."""
    files = {}
    for module in (prediction_service_pb2, model_service_pb2):
        files.update((file.name, file) for file in with_dependencies(module.DESCRIPTOR))
    descriptors = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(descriptors.file.add())
    Path(path).write_bytes(descriptors.SerializeToString())


def with_dependencies(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """Yields the files that `file` imports, then `file`. A file may repeat."""
    for dependency in file.dependencies:
        yield from with_dependencies(dependency)
    yield file


if __name__ == "__main__":
    main(*sys.argv[1:])
