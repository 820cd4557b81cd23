"""One label per pair of sentences: JSON lines or tables ─► labeled pairs ─► ESIM."""

import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from absl import logging
from keras import layers, ops

from elmo_tf.files import json_text
from elmo_tf.layers.scalar_mix import masked_mean
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.classification import NO_LABEL, unescaped
from elmo_tf.tasks.classification.model import Classifier
from elmo_tf.tasks.layers import BiRNN, masked_max, soft_alignment
from elmo_tf.tasks.reading import (
    check_label,
    is_table,
    json_rows,
    naming_line,
    not_empty,
    table_rows,
)
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import with_elmo

_FIELDS = ("sentence1", "sentence2", "gold_label")


class LabeledPair(NamedTuple):
    """The tokens of two sentences, and the label of the pair."""

    premise: list[str]
    hypothesis: list[str]
    label: str


@keras.saving.register_keras_serializable(package="elmo_tf")
class ESIM(Classifier):
    """The enhanced sequential inference model, for sentence pairs.

    A biLSTM encodes each text `a`. Each of its tokens is aligned with the other text `b`,
    `ã_i = sum_j softmax_j(a_i · b_j) b_j`. A second biLSTM composes
    `relu([a; ã; a - ã; a ⊙ ã] · W + b)`. The mean and the maximum over the tokens of both texts go
    through a tanh layer. Both texts share all weights.

    Args:
        labels: the labels.
        embeddings, elmo, placement: see `TokenVectors`; "output" is the output of the first
            biLSTM.
        units: int >= 1. Width of each direction and of the dense layers. Defaults to the published
            300.
        dropout: float, 0 to below 1. Dropout rate before each layer except the alignment. Defaults
            to 0.5.

    Call arguments:
        inputs: a pair of batches (premises, hypotheses), or a dict with the keys "premise" and
            "hypothesis".

    Further call arguments, Returns, Raises: see `Classifier`.

    Source: Chen et al. 2017, section 3.
    """

    texts: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 300,
        dropout: float = 0.5,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        dtype = self.dtype_policy
        self.settings = {"units": units, "dropout": dropout}
        self.input_dropout = layers.SpatialDropout1D(dropout, dtype=dtype, name="input_dropout")
        self.encoder = BiRNN(units, dtype=dtype, name="encoder")
        self.projection = layers.Dense(units, activation="relu", dtype=dtype, name="projection")
        self.composition_dropout = layers.SpatialDropout1D(
            dropout, dtype=dtype, name="composition_dropout"
        )
        self.composition = BiRNN(units, dtype=dtype, name="composition")
        self.hidden_dropout = layers.Dropout(dropout, dtype=dtype, name="hidden_dropout")
        self.hidden = layers.Dense(units, activation="tanh", dtype=dtype, name="hidden")
        self.score_dropout = layers.Dropout(dropout, dtype=dtype, name="score_dropout")
        self.scores = layers.Dense(len(self.labels), dtype=dtype, name="scores")
        self._create_weights()

    def call(self, inputs, training=False):
        premise, hypothesis = (self._encoded(inputs, text, training) for text in self.texts)
        pooled = ops.concatenate(
            [
                self._composed(*premise, *hypothesis, training),
                self._composed(*hypothesis, *premise, training),
            ],
            axis=-1,
        )  # (batch, feature)
        hidden = self.hidden(self.hidden_dropout(pooled, training=training))
        return self.scores(self.score_dropout(hidden, training=training))

    def _encoded(self, inputs, text, training):
        """The encoded tokens of a text, float (batch, token, feature), and their mask."""
        vectors = self._vectors(inputs, text, training)
        mask = vectors["mask"]
        hidden = self.input_dropout(vectors["input"], training=training)
        hidden = self.encoder(hidden, mask=mask, training=training)
        return with_elmo(hidden, vectors), mask

    def _composed(self, vectors, mask, others, others_mask, training):
        """One text compared with the other, float (batch, feature)."""
        aligned = soft_alignment(vectors, others, others_mask)
        parts = [vectors, aligned, vectors - aligned, vectors * aligned]
        hidden = self.projection(ops.concatenate(parts, axis=-1))
        hidden = self.composition_dropout(hidden, training=training)
        hidden = self.composition(hidden, mask=mask, training=training)
        return ops.concatenate([masked_mean(hidden, mask), masked_max(hidden, mask)], axis=-1)


class Entailment(Task):
    """One label per pair of sentences."""

    models: ClassVar = {"esim": ESIM}

    def _read(self, path, config, known):
        return read_pairs(path, known)

    def read_inputs(self, path, config, format=None, token_column=None):
        return read_pairs(path, is_labeled=False)

    def texts(self, example):
        return (example.premise, example.hypothesis)

    def lines(self, examples, predicted):
        for pair, label in zip(examples, predicted, strict=True):
            row = {"sentence1": " ".join(pair.premise), "sentence2": " ".join(pair.hypothesis)}
            yield json_text({**row, "label": label})


def read_pairs(
    path: str | os.PathLike, known: Collection[str] | None = None, is_labeled: bool = True
) -> list[LabeledPair]:
    """Reads labeled sentence pairs, as in the Stanford Natural Language Inference corpus (SNLI).

    Tokens are those of the fields `sentence1_binary_parse` and `sentence2_binary_parse` where a
    line has them (with the escapes undone: `-LRB-` is `(`), and otherwise the whitespace-separated
    tokens of the sentences. Pairs with the label `-` (the annotators disagree) are left out, and
    their number is logged.

    Args:
        path: lines of JSON objects with `sentence1`, `sentence2` and `gold_label`; or `.tsv` or
            `.csv` with columns of these names, see `read_labeled`. `.gz` is decompressed.
        known: allowed labels; None allows all.
        is_labeled: whether to read labels. If False, labels may be missing, no pair is left out,
            and all labels are `-`. Defaults to True.

    Returns:
        At least one pair.

    Raises:
        ValueError: the file is wrong. The message names the line.
        OSError: the file cannot be read.
    """
    rows = table_rows if is_table(path) else json_rows
    pairs, num_undecided = [], 0
    for line, row in rows(path, _FIELDS if is_labeled else _FIELDS[:2]):
        label = " ".join(row["gold_label"].split()) if is_labeled else NO_LABEL
        if is_labeled and label == NO_LABEL:
            num_undecided += 1
            continue
        with naming_line(path, line):
            if is_labeled:
                check_label(label, known)
            premise, hypothesis = (_tokens(row, field) for field in _FIELDS[:2])
        pairs.append(LabeledPair(premise, hypothesis, sys.intern(label)))
    if num_undecided:
        logging.info(
            "%s: left out %s pairs without a gold label.", os.fspath(path), f"{num_undecided:,}"
        )
    return not_empty(path, pairs)


def _tokens(row: dict[str, Any], field: str) -> list[str]:
    parse = row.get(f"{field}_binary_parse")
    if isinstance(parse, str) and parse.strip():
        leaves = re.sub(r"(?<!\S)[()](?!\S)", " ", parse)
        tokens = [unescaped(token) for token in leaves.split()]
    else:
        tokens = row[field].split()
    if not tokens:
        raise ValueError(f"`{field}` has no token.")
    return tokens
