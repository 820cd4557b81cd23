"""How much one request may ask for."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.answers import LENGTHS
from elmo_tf.saved_models.server.errors import invalid


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a request: what is larger is refused before it is computed.

    Args:
        max_request_bytes: of a message, and of each tensor in it.
        max_sentences: rows of a request.
        max_tokens: sentences times the tokens of the longest, which is what answers are padded to.

    Raises:
        ValueError: a bound is less than 1.
    """

    max_request_bytes: int = 64 * 1024 * 1024
    max_sentences: int = 4096
    max_tokens: int = 65_536

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise ValueError(f"{field.name} must be at least 1, but is {value}.")

    def check_size(self, alias: str, proto: tensor_pb2.TensorProto) -> None:
        """Refuses a tensor that is larger than it may be, before it is one.

        One value stands for a tensor that is filled with it: a small request must not fill memory.

        Raises:
            tf.errors.InvalidArgumentError: it has an axis of unknown size, or is too large.
        """
        sizes = [dim.size for dim in proto.tensor_shape.dim]
        if proto.tensor_shape.unknown_rank or any(size < 0 for size in sizes):
            raise invalid(f"tensor parsing error: {alias}")
        # Without rows, too, a model takes time for the other axes.
        num_elements = math.prod(max(1, size) for size in sizes)
        if num_elements * _element_size(proto.dtype) + _filling(proto, num_elements) > (
            self.max_request_bytes
        ):
            raise invalid(
                f"tensor parsing error: {alias} has the shape {sizes}, which is more than "
                f"{self.max_request_bytes} bytes"
            )

    def check_tokens(
        self, signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, np.ndarray]
    ) -> int:
        """Refuses more sentences or tokens than a request may have.

        Args:
            signature: that is asked.
            inputs: arrays by their names.

        Returns:
            Sentences times the tokens of the longest; 0 if the signature is not for text.

        Raises:
            tf.errors.InvalidArgumentError: there are too many.
        """
        if not takes_sentences(signature):
            return 0
        num_sentences = max((len(array) for array in inputs.values() if array.ndim), default=0)
        if num_sentences > self.max_sentences:
            raise invalid(
                f"The request has {num_sentences} sentences, more than {self.max_sentences}. "
                "Send them in several requests."
            )
        is_raw = "starts" in signature.outputs
        longest = max((self._longest(array, is_raw) for array in inputs.values()), default=0)
        num_tokens = max(1, num_sentences) * longest
        if num_tokens > self.max_tokens:
            raise invalid(
                f"The request has {num_sentences} sentences, the longest with {longest} tokens or "
                f"more; their product must be at most {self.max_tokens}. Send fewer or shorter "
                "sentences at once."
            )
        return num_tokens

    def _longest(self, array: np.ndarray, is_raw: bool) -> int:
        """Tokens of the longest row; no more than one above the limit are counted."""
        if array.ndim > 1:
            return array.shape[1]
        if array.dtype != object:
            return 0
        if is_raw:  # Each byte may become a token.
            return max((len(text) for text in array.tolist() if isinstance(text, bytes)), default=0)
        # As the graph splits; each token and its white space take two bytes or more.
        short = self.max_tokens // max(1, len(array))
        return max(
            (
                len(text.decode("utf-8", "replace").split(None, short))
                for text in array.tolist()
                if isinstance(text, bytes)
            ),
            default=0,
        )


def takes_sentences(signature: meta_graph_pb2.SignatureDef) -> bool:
    """Whether a signature is one of an exported biLM: it says how many tokens a sentence has."""
    return LENGTHS in signature.outputs


def _filling(proto: tensor_pb2.TensorProto, num_elements: int) -> int:
    """Bytes of the strings that the last one stands for."""
    values = proto.string_val
    return len(values[-1]) * max(0, num_elements - len(values)) if values else 0


def _element_size(dtype: int) -> int:
    try:
        return 16 if dtype == tf.string.as_datatype_enum else tf.as_dtype(dtype).size
    except TypeError:  # It is no type, and is refused where it is read.
        return 1
