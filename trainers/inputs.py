"""What a run reads before its work directory changes: text, lexicon and initial weights."""

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from elmo_tf.checkpoints.formats import OPTIONS_FILE, VOCABULARY_FILE
from elmo_tf.checkpoints.load import load_config, open_checkpoint
from elmo_tf.checkpoints.weight_files import softmax_variables, variables_by_path
from elmo_tf.config import BiLMConfig, LexiconConfig
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.corpus import corpus_size, count_files, warn_of_unknown
from elmo_tf.text.counting import TextCount
from elmo_tf.text.lexicon import CHARACTERS_FILE, Lexicon
from elmo_tf.text.tokenizers import recorded_tokenizer
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tf.trainers.config import DEFAULT_EPOCHS, MAX_TOKENS, PretrainConfig
from elmo_tf.trainers.workdir import WorkDirectory

# With fewer distinct tokens, the corpus is of a closed alphabet, such as characters or amino acids.
_CLOSED_TYPES = 1_000
_LOWEST_RATE = 0.002  # the lowest default of AdamW
# A vocabulary is not sorted by frequency if the correlation of log ids and log counts is larger. It
# was at most -0.36 for vocabularies of other domains, and at least -0.17 in alphabetical order.
_MAX_CORRELATION, _FEWEST_TYPES = -0.25, 100
# Variables with one row per token of the vocabulary, by their path below the biLM or softmax.
_TABLES = frozenset({"W", "b", "token_embedding/embedding"})
# Not copied: `warm_start` computed it with the weights of the checkpoint, which training changes.
_STATE = "initial_state"


class Inputs(NamedTuple):
    """The vocabulary of a run, the shape of its biLM, its lexicon, its text, length and rate."""

    vocabulary: Vocabulary
    shape: BiLMConfig
    lexicon: Lexicon | None
    corpus: dict[str, Any]
    earlier_corpora: list[dict[str, Any]]
    num_steps: int
    learning_rate: float


def initial_vocabulary(
    config: PretrainConfig, workdir: WorkDirectory, files: list[Path]
) -> tuple[Vocabulary, TextCount | None]:
    """The vocabulary of a run; if it is built from the text, also the count of the text.

    Errors: see `pretrain`.
    """
    path = config.vocab
    if path is None and workdir.before is not None:
        path = workdir.path / VOCABULARY_FILE
    if path is not None:
        return Vocabulary.load(path), None
    text = count_files(files, config.input_format)
    # A closed alphabet is complete: it has no rare tokens to learn <UNK> from.
    min_count = 1 if len(text.types) < _CLOSED_TYPES else 2
    return Vocabulary.of_counts(text.types, min_count, MAX_TOKENS), text


def initial_shape(
    config: PretrainConfig, workdir: WorkDirectory, num_tokens: int, files: list[Path]
) -> BiLMConfig:
    """The shape of the biLM: that of the checkpoint it starts from, or else of the settings.

    Its tokenizer is that of the settings, or else of the run that is resumed, of the text, `files`,
    or of the options or the checkpoint.
    """
    shape, path = config.bilm_config(num_tokens), config.start_from
    if path is not None:
        given = shape
        if workdir.before is not None:  # without the checkpoint, which may have been removed
            shape = BiLMConfig.from_options(workdir.path / OPTIONS_FILE)
        else:
            shape = load_config(path)
            if shape.char_cnn is None or shape.num_tokens is not None:
                shape = dataclasses.replace(shape, num_tokens=num_tokens)
        is_given = config.preset is not None or config.options is not None
        if is_given and dataclasses.replace(given, tokenizer=shape.tokenizer) != shape:
            raise ValueError(f"{path} has another shape than the preset or options: omit them.")
    tokenizer = config.tokenizer
    if tokenizer is None and workdir.before is not None:
        tokenizer = workdir.before["settings"]["options"].get("tokenizer")
    elif tokenizer is None:
        recorded = recorded_tokenizer([*files, *filter(None, [config.vocab])])
        tokenizer = recorded or shape.tokenizer
    return dataclasses.replace(shape, tokenizer=tokenizer)


def default_learning_rate(config: PretrainConfig, num_cells: int, num_steps: int) -> float:
    """The highest rate of a run with so many LSTM cells per layer, if none is set."""
    if config.optimizer == "adagrad":
        return 0.2
    if config.start_from is not None:
        return _LOWEST_RATE
    # Measured: see "Default learning rates" in docs/benchmarks.md.
    return max(_LOWEST_RATE, min(0.01, 2 / num_cells, 0.5 / math.sqrt(num_steps)))


def read_inputs(
    config: PretrainConfig,
    workdir: WorkDirectory,
    shape: BiLMConfig,
    vocabulary: Vocabulary,
    text: TextCount | None,
    files: list[Path],
    valid_files: list[Path],
) -> Inputs:
    """Reads the text, and checks that it fits the run in the work directory, if that is resumed.

    For `shape` see `initial_shape`, for `vocabulary` and `text` `initial_vocabulary`. Errors: see
    `pretrain`.
    """
    lexicon, before = None, workdir.before
    has_lexicon = shape.char_cnn is not None and shape.char_cnn.lexicon is not None
    if has_lexicon and (config.start_from is None or before is not None):
        text = text or count_files(files, config.input_format)
        lexicon, shape = _own_lexicon(config, workdir, shape, vocabulary, text)
    if before is not None and config.learning_rate is None:
        config = dataclasses.replace(config, learning_rate=before["settings"]["learning_rate"])
    workdir.check_settings(config.as_json(options=shape.to_options()))
    own = workdir.path / VOCABULARY_FILE
    if not config.overwrite and own.exists() and Vocabulary.load(own) != vocabulary:
        if before is None:
            workdir.refuse([own.name])
        raise ValueError(
            f"Cannot resume with another vocabulary: {config.vocab} differs from {own}."
        )
    text = text or count_files(files, config.input_format)
    corpus = corpus_size(text, vocabulary)
    logging.info(
        "Corpus: %s sentences, %s tokens, %s types, %.2f%% of tokens unknown, longest sentence %s "
        "tokens.",
        *(f"{corpus[name]:,}" for name in ("sentences", "tokens", "types")),
        *(100 * corpus["unknown"] / corpus["tokens"], f"{corpus['longest']:,}"),
    )
    text.report()
    window = config.batch_size * config.unroll
    if text.targets < window:
        raise ValueError(
            f"The corpus has {text.targets} tokens, sentence ends included: too few for one step "
            f"of batch_size {config.batch_size} by unroll {config.unroll}. Lower them."
        )
    warn_of_unknown(
        corpus["unknown"] / text.targets,
        " of the training text",
        "the model does not learn these words, and its perplexity is misleadingly low. Build the "
        "vocabulary from this text, or with a larger --max-size.",
    )
    if config.vocab is not None and len(vocabulary) > config.num_sampled:
        _warn_of_order(text, vocabulary)
    if corpus["unknown"] == 0 and corpus["types"] >= _CLOSED_TYPES:
        logging.warning(
            "The vocabulary holds every token of the corpus, so <UNK> is never learned and unknown "
            "words of other text get far too low probabilities. Leave --vocab out, or build the "
            "vocabulary with --min-count 2 or --max-size."
        )
    corpus["bytes"] = [file.stat().st_size for file in files]
    earlier, first = _earlier_corpora(config, workdir, corpus)
    corpus["first_step"] = first  # the number of steps that read the earlier ones
    if valid_files:
        count_files(valid_files, config.input_format)  # fails if it is unreadable
    epochs = config.epochs or DEFAULT_EPOCHS
    num_steps = config.steps or first + max(1, round(epochs * (text.targets / window)))
    logging.info(
        "Training: %s steps of %s tokens, %.2g epochs. A model that knows only the frequencies of "
        "words has perplexity %.0f on this text.",
        *(f"{num_steps:,}", f"{window:,}", (num_steps - first) * window / text.targets),
        corpus["unigram_perplexity"],
    )
    rate = config.learning_rate or default_learning_rate(config, shape.lstm.dim, num_steps)
    return Inputs(vocabulary, shape, lexicon, corpus, earlier, num_steps, rate)


def _warn_of_order(text: TextCount, vocabulary: Vocabulary) -> None:
    """Warns if the order of a vocabulary has nothing to do with the frequencies in a text."""
    counts = np.array([text.types[token] for token in vocabulary.tokens])
    ids = np.flatnonzero(counts)
    if len(ids) < _FEWEST_TYPES or np.ptp(counts[ids]) == 0:
        return
    correlation = np.corrcoef(np.log(ids + 1), np.log(counts[ids]))[0, 1]
    if correlation > _MAX_CORRELATION:
        logging.warning(
            "The tokens of the vocabulary are not sorted by falling frequency, which the sampled "
            "softmax relies on: the model learns less. Build the vocabulary with elmo-tf vocab."
        )


def _earlier_corpora(
    config: PretrainConfig, workdir: WorkDirectory, corpus: dict[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """The corpora that the run read before this one, and the number of steps that read them."""
    if workdir.before is None:
        return [], 0
    before, step = workdir.before["corpus"], workdir.before["saved_step"]
    earlier = workdir.before.get("earlier_corpora", [])
    if all(before[name] == corpus[name] for name in before.keys() & corpus):
        return earlier, min(before.get("first_step", 0), step)
    if config.new_corpus:
        return [*earlier, {"files": workdir.before["settings"]["corpus"], **before}], step
    sizes = [
        f"{one['sentences']:,} sentences, {one['tokens']:,} tokens, {sum(one['bytes']):,} bytes"
        for one in ({"bytes": ()} | before, corpus)
    ]
    raise ValueError(
        f"The corpus changed: {sizes[0]} before, {sizes[1]} now. Pass the text of the run in "
        f"{workdir.path}, choose another --workdir, or add --new-corpus to continue with this text."
    )


def initial_model(config: PretrainConfig, workdir: WorkDirectory) -> LanguageModel | BiLM | None:
    """The model of the checkpoint to start from, or None. Errors: see `load_bilm`."""
    if config.start_from is None or workdir.before is not None:
        return None
    with open_checkpoint(config.start_from) as checkpoint:
        # A published checkpoint has no softmax.
        return checkpoint.language_model() if checkpoint.has_softmax else checkpoint.bilm()


def copy_weights(source: LanguageModel | BiLM, model: LanguageModel, path: str) -> None:
    """Copies the weights of the checkpoint `path`, whose model is `source`, to a model.

    Rows of tokens that the vocabulary of the checkpoint lacks are unchanged.
    """
    vocabulary = source.vocabulary
    bilm = source.bilm if isinstance(source, LanguageModel) else source
    if bilm.config.char_cnn is None and vocabulary is None:
        raise FileNotFoundError(f"{path} has no {VOCABULARY_FILE}, which names its token vectors.")
    ids = {token: index for index, token in enumerate(vocabulary.tokens if vocabulary else ())}
    new = [index for index, token in enumerate(model.vocabulary.tokens) if token in ids]
    old = [ids[model.vocabulary.tokens[index]] for index in new]
    parts = [(variables_by_path(bilm), variables_by_path(model.bilm))]
    if isinstance(source, LanguageModel):
        parts.append((softmax_variables(source.softmax), softmax_variables(model.softmax)))
        logging.info(
            "%d of %d tokens keep their softmax rows of %s; the others are randomly initialized.",
            *(len(new), len(model.vocabulary), path),
        )
    else:
        logging.warning("%s has no softmax weights: the softmax is randomly initialized.", path)
    for values, weights in parts:
        for name, weight in weights.items():
            if name == _STATE:
                continue
            value = values[name].numpy()
            if name in _TABLES:
                rows, value = value[old], weight.numpy()
                value[new] = rows
            weight.assign(value)


def _own_lexicon(
    config: PretrainConfig,
    workdir: WorkDirectory,
    shape: BiLMConfig,
    vocabulary: Vocabulary,
    text: TextCount,
) -> tuple[Lexicon, BiLMConfig]:
    """The lexicon of a run, and the shape of its biLM with the sizes of the lexicon.

    It is that of the work directory, if there is one, or else built from the text and vocabulary.
    """
    char_cnn = shape.char_cnn
    has_words = char_cnn.lexicon.num_words > 0
    if (workdir.path / CHARACTERS_FILE).exists() and not config.overwrite:
        lexicon = Lexicon.load(workdir.path, has_words)
    else:
        words = vocabulary.tokens[len(SPECIAL_TOKENS) :] if has_words else None
        lexicon = Lexicon.build(text.types, words, char_cnn.max_chars)
        numbers = lexicon.num_characters, lexicon.num_words
        logging.info("Built a lexicon of the text: %d characters and %d words.", *numbers)
    sizes = LexiconConfig(lexicon.num_characters, lexicon.num_words, char_cnn.lexicon.word_dim)
    char_cnn = dataclasses.replace(char_cnn, lexicon=sizes)
    return lexicon, dataclasses.replace(shape, char_cnn=char_cnn)
