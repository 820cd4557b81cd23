"""TF Serving's protos ─► one file that programs without Python load them from.

    python examples/node/descriptors.py tensorflow_serving.bin

The wheel of tensorflow-serving-api has no `.proto` files, but what it is generated from.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2


def main(path: str) -> None:
    """Writes both services of a model server and all that their messages are made of."""
    files = {}
    for module in (prediction_service_pb2, model_service_pb2):
        files.update((file.name, file) for file in with_dependencies(module.DESCRIPTOR))
    descriptors = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(descriptors.file.add())
    Path(path).write_bytes(descriptors.SerializeToString())


def with_dependencies(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """Yields a file after those that it imports. Some come more than once."""
    for dependency in file.dependencies:
        yield from with_dependencies(dependency)
    yield file


if __name__ == "__main__":
    main(*sys.argv[1:])
