"""The signature `text` of models that name the tokenizer of their text.

A SavedModel cannot contain a tokenizer written in Python: its signatures split at whitespace. The
server tokenizes raw text, and passes the tokens to `serving_default`.
"""

import copy
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.checkpoints.formats import OPTIONS_FILE
from elmo_tf.saved_models.messages import LENGTHS, TEXT
from elmo_tf.text.reading import decode, encode
from elmo_tf.text.tokenizers import Token, Tokenizer, align, tokenizer_of

BASE = "serving_default"
_OF_TOKENS = {"tokens": tf.string, "starts": tf.int64, "ends": tf.int64}


class RawText:
    """Raw texts ─► the inputs of `serving_default`, and for a biLM also the tokens of `text`.

    `signature` is that of `text`. A tab separates the texts of a model of two texts. The texts of
    a model that labels words are split at whitespace, and then into the tokens of each word.
    """

    def __init__(self, tokenizer: Tokenizer, signatures: Mapping[str, meta_graph_pb2.SignatureDef]):
        self._tokenizer = tokenizer
        self.signature = copy.deepcopy(signatures[BASE])
        inputs, outputs = self.signature.inputs, self.signature.outputs
        self._has_pairs, self._has_words = "pair" in signatures, "owners" in inputs
        self._has_tokens = LENGTHS in outputs and not self._has_words
        if self._has_words:
            inputs.clear()
            _set(inputs["strings"], tf.string, 1)
        for name, dtype in _OF_TOKENS.items() if self._has_tokens else ():
            _set(outputs[name], dtype, 2)

    @classmethod
    def of_version(
        cls, path: Path, signatures: Mapping[str, meta_graph_pb2.SignatureDef]
    ) -> "RawText | None":
        """Returns that of a version of a model; None without a tokenizer."""
        options = path / "assets" / OPTIONS_FILE
        code = options.is_file() and json.loads(options.read_bytes()).get("tokenizer")
        if not code or TEXT in signatures:
            return None
        try:
            tokenizer = tokenizer_of(code, None)
        except (ImportError, ValueError) as error:
            logging.warning("%s is served without the signature %s: %s", path, TEXT, error)
            return None
        return tokenizer and cls(tokenizer, signatures)

    def tokenized(self, texts: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns the inputs of `serving_default`, and the outputs that only `text` has."""
        decoded = list(map(decode, texts.tolist()))
        if self._has_words:
            words = [text.split() for text in decoded]
            aligned = [align(each, self._tokenizer) for each in words]
            return {
                "tokens": _padded([list(map(encode, each)) for each in words], b""),
                LENGTHS: np.array(list(map(len, words)), np.int32),
                "parts": _padded([list(map(encode, parts)) for parts, _ in aligned], b""),
                "owners": _padded([owners for _, owners in aligned], 0).astype(np.int32),
            }, {}
        rows = [  # (text, part, token)
            [self._tokens(part) for part in (text.split("\t") if self._has_pairs else [text])]
            for text in decoded
        ]
        strings = ("\t".join(" ".join(t.text for t in part) for part in parts) for parts in rows)
        inputs = {"strings": np.array(list(map(encode, strings)), object)}
        if not self._has_tokens:
            return inputs, {}
        of_texts = [_in_bytes(text, parts[0]) for text, parts in zip(decoded, rows, strict=True)]
        columns = _padded(of_texts, (b"", 0, 0))
        return inputs, {
            name: columns[..., index].astype(dtype.as_numpy_dtype)
            for index, (name, dtype) in enumerate(_OF_TOKENS.items())
        }

    def _tokens(self, text: str) -> list[Token]:
        return list(itertools.chain.from_iterable(self._tokenizer(text)))


def _set(info: meta_graph_pb2.TensorInfo, dtype: tf.DType, rank: int) -> None:
    info.dtype = dtype.as_datatype_enum
    info.tensor_shape.CopyFrom(tf.TensorShape([None] * rank).as_proto())


def _padded(rows: Sequence[Sequence[Any]], padding: Any) -> np.ndarray:
    """Rows of values as an array of objects with at least one column."""
    width = max([1, *map(len, rows)])
    padded = [[*row, *[padding] * (width - len(row))] for row in rows]
    return np.array(padded, object).reshape(len(rows), width, *np.shape(padding))


def _in_bytes(text: str, tokens: Sequence[Token]) -> list[tuple[bytes, int, int]]:
    """The tokens, and their starts and ends in the encoded text."""
    places = list(itertools.accumulate((len(encode(char)) for char in text), initial=0))
    return [(encode(token.text), places[token.start], places[token.end]) for token in tokens]
