"""Exports a task model as a SavedModel for TF Serving."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from elmo_tf.checkpoints.formats import OPTIONS_FILE
from elmo_tf.files import atomic_directory, write_json
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import CutToLengths
from elmo_tf.saved_models.exporting.export import VERSION_FILES, version_path, warn_of_layer_norm
from elmo_tf.saved_models.exporting.signatures import SENTENCES, SEQUENCE_LEN, TOKENS
from elmo_tf.saved_models.exporting.verify import (
    EXAMPLES,
    TOLERANCES,
    check_weights,
    compare_signatures,
    token_inputs,
)
from elmo_tf.tasks import CoreferenceModel, Ensemble, PropositionTagger, SRLTagger, TaskModel
from elmo_tf.text.inputs import checked, count_tokens, is_token, split_tokens

PARTS = tf.TensorSpec((None, None), tf.string, name="parts")
OWNERS = tf.TensorSpec((None, None), tf.int32, name="owners")
_PREDICATE = tf.TensorSpec((None,), tf.int32, name="predicate")
_Signature = tuple[Any, dict[str, tf.Tensor]]  # a function, and its inputs in verification


def export_task(
    model: TaskModel | Ensemble | PropositionTagger,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    check: bool = True,
) -> str:
    """Writes `directory/<version>/`, a SavedModel; docs/guides/tasks.md lists its signatures.

    The SavedModel includes the biLM: it maps strings to labels and probabilities. It is compared
    with the live model as by `export`. `assets/labels.txt` contains the labels, and
    `assets/options.json` the code of the tokenizer, with which the embedded server reads raw text.

    Args:
        model: a `TaskModel`, an `Ensemble` or a `PropositionTagger`.
        directory, version, overwrite, check: see `export`.

    Returns:
        The path of the version.

    Raises:
        FileExistsError, ValueError, RuntimeError, OSError: see `export`.
    """
    path = version_path(directory, version)
    with atomic_directory(path, overwrite, VERSION_FILES) as part:
        exported = ExportedTask(model)
        first = exported.members[0]
        warn_of_layer_norm(first.elmo)
        tf.saved_model.save(exported, os.fspath(part), signatures=exported.signatures)
        if first.tokenizer is not None:
            write_json(part / "assets" / OPTIONS_FILE, {"tokenizer": first.tokenizer})
        if first.labels:
            labels = "".join(f"{label}\n" for label in first.output_labels)
            (part / "assets" / "labels.txt").write_text(labels, encoding="utf-8")
        if check:
            compare_signatures(part, exported.signatures, exported.examples, TOLERANCES["float32"])
            check_weights(part, exported.variables)
    return os.fspath(path)


class ExportedTask(tf.train.Checkpoint):
    """A task model as functions and raw variables that TensorFlow can save.

    `signatures` are the functions by signature name, `examples` the inputs of each one in
    verification. The outputs are those of `TaskModel.predictions`.
    """

    def __init__(self, model: TaskModel | Ensemble | PropositionTagger):
        super().__init__()
        self.variables = [weight.value for weight in model.weights]
        models = [model]
        if isinstance(model, PropositionTagger):
            models = [model.role_tagger, model.predicate_tagger]
        members = [member for each in models for member in getattr(each, "members", (each,))]
        self.tables = [  # of words, in biLMs and embeddings
            part
            for member in members
            for part in tf.train.TrackableView(member).descendants()
            if isinstance(part, tf.lookup.StaticHashTable)
        ]
        if isinstance(members[0], CoreferenceModel):
            signatures = _of_documents(model)
        elif isinstance(members[0], SRLTagger):
            if members[0].tokenizer is not None:
                raise ValueError("An SRLTagger with a `tokenizer` cannot be exported.")
            signatures = _of_predicates(models[0])
            if isinstance(model, PropositionTagger):
                signatures["propositions"] = _of_strings(
                    lambda strings: model.predictions(split_tokens(strings).to_tensor("")), EXAMPLES
                )
        elif members[0].labels_words and members[0].tokenizer is not None:
            signatures = _of_words(model, members[0].elmo.bilm)
        else:
            signatures = _of_pairs(model) if len(model.texts) > 1 else _of_sentences(model)
        signatures["serving_default"] = signatures["default"]
        # Not by assignment: TensorFlow would track and save Keras weights a second time.
        vars(self).update(
            members=members,
            signatures={name: function for name, (function, _) in signatures.items()},
            examples={name: examples for name, (_, examples) in signatures.items()},
        )


def _of_strings(function: Any, examples: Sequence[str]) -> _Signature:
    traced = tf.function(lambda strings: function(strings), [SENTENCES], autograph=False)
    return traced, {"strings": tf.constant(examples)}


def _of_sentences(model: TaskModel) -> dict[str, _Signature]:
    @tf.function(input_signature=[TOKENS, SEQUENCE_LEN], autograph=False)
    def of_tokens(tokens, sequence_len):
        return model.predictions(CutToLengths()(tokens, sequence_len))

    return {
        "default": _of_strings(model.predictions, EXAMPLES),
        "tokens": (of_tokens, token_inputs()),
    }


def _of_words(model: TaskModel, bilm: BiLM) -> dict[str, _Signature]:
    """`default` with words, their tokens `parts`, and `owners`, the index of the word of each."""

    @tf.function(input_signature=[TOKENS, SEQUENCE_LEN, PARTS, OWNERS], autograph=False)
    def of_words(tokens, sequence_len, parts, owners):
        words = CutToLengths()(tokens, sequence_len)
        layers = bilm(parts, lengths=count_tokens(is_token(parts)))["layers"]
        owners = tf.where(is_token(parts), owners, -1)
        is_part = tf.one_hot(owners, tf.shape(tokens)[1], axis=1)  # (batch, word, part)
        shares = tf.math.divide_no_nan(is_part, tf.reduce_sum(is_part, axis=2, keepdims=True))
        means = tf.einsum("bwp,blpf->blwf", shares, layers)
        return model.predictions({"tokens": words, "layers": means})

    words = token_inputs()
    owners = tf.repeat(tf.range(tf.shape(words["tokens"])[1])[tf.newaxis], len(EXAMPLES), axis=0)
    return {"default": (of_words, {**words, "parts": words["tokens"], "owners": owners})}


def _of_pairs(model: TaskModel) -> dict[str, _Signature]:
    first, second = model.texts

    def of_strings(strings):
        texts = tf.strings.split(strings, "\t")
        are_complete = tf.reduce_all(texts.row_lengths() == 2)
        message = f"Each string must be a {first} and a {second} with one tab between them, not"
        pairs = tf.reshape(checked(texts.flat_values, are_complete, message, strings), (-1, 2))
        return model.predictions((pairs[:, 0], pairs[:, 1]))

    others = EXAMPLES[1:] + EXAMPLES[:1]
    strings = ["\t".join(pair) for pair in zip(EXAMPLES, others, strict=True)]
    of_pair = tf.function(lambda **texts: model.predictions(texts), autograph=False)
    specs = {name: tf.TensorSpec((None,), tf.string, name=name) for name in model.texts}
    examples = {first: tf.constant(EXAMPLES), second: tf.constant(others)}
    return {
        "default": _of_strings(of_strings, strings),
        "pair": (of_pair.get_concrete_function(**specs), examples),
    }


def _of_predicates(model: SRLTagger) -> dict[str, _Signature]:
    def of_strings(strings):
        tokens = split_tokens(strings)  # "2 My cats love hats ."
        indices = tokens[:, :1].to_tensor("", shape=(None, 1))[:, 0]
        are_complete = tf.reduce_all(tf.strings.regex_full_match(indices, r"\d{1,9}"))
        message = "Each string must be the index of a token, from 0, and a sentence, not"
        indices = tf.strings.to_number(checked(indices, are_complete, message, strings), tf.int32)
        return model.predictions((tokens[:, 1:].to_tensor(""), indices))

    @tf.function(input_signature=[SENTENCES, _PREDICATE], autograph=False)
    def of_roles(strings, predicate):
        return model.predictions((strings, predicate))

    sentences = [sentence for sentence in EXAMPLES if len(sentence.split()) > 1]
    predicates = tf.ones(len(sentences), tf.int32)
    return {
        "default": _of_strings(of_strings, [f"1 {sentence}" for sentence in sentences]),
        "roles": (of_roles, {"strings": tf.constant(sentences), "predicate": predicates}),
    }


def _of_documents(model: CoreferenceModel) -> dict[str, _Signature]:
    of_mentions = tf.RaggedTensorSpec((None,), tf.int32, ragged_rank=0)
    names = ("mention_start", "mention_end", "entity")

    def of_strings(documents):
        outputs = tf.map_fn(  # each document separately
            lambda document: model.predictions(tf.strings.split(document, "\n")),
            documents,
            fn_output_signature=dict.fromkeys(names, of_mentions),
        )
        return {name: values.to_tensor(-1) for name, values in outputs.items()}

    return {"default": _of_strings(of_strings, ["\n".join(EXAMPLES), *EXAMPLES])}
