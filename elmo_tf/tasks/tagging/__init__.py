"""Tags of tokens: parts of speech and named entities."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from elmo_tf.tasks.scores import span_scores, tag_scores
from elmo_tf.tasks.tag_schemes import converted, scheme_tags, span_types
from elmo_tf.tasks.tagging.model import CRFTagger
from elmo_tf.tasks.tagging.reader import read_tagged
from elmo_tf.tasks.task import Task, file_sentences
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.sentence_files import FileSentence, format_of


class Tagging(Task):
    """One tag per token."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"crf": CRFTagger}

    def _read(self, path, config, known):
        return read_tagged(path, config.format, config.token_column, config.tag_column, known=known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        sentences = file_sentences(path, format, token_column)
        is_text = format is None and format_of(path) == "text"
        if is_text and _look_like_columns(sentences, known):
            raise ValueError(
                f"{path} is read as text because of its name, but each line ends in a label of the "
                "model. If the file has columns, name its format (format, --input-format)."
            )
        return sentences

    def labels(self, examples):
        return sorted({tag for example in examples for tag in example.tags})

    def target(self, model, example):
        return model.label_ids(example.tags)

    def scores(self, gold, predicted):
        return tag_scores(gold, predicted)

    def lines(self, examples, predicted):
        for example, tags in zip(examples, predicted, strict=True):
            pairs = zip(example.tokens, tags, strict=True)
            yield from (f"{token}\t{tag}" for token, tag in pairs)
            yield ""

    def model_arguments(self, config):
        arguments = super().model_arguments(config)
        if config.units is not None:
            arguments["units"] = (config.units, max(config.units // 2, 1))
        return arguments


def _look_like_columns(sentences: Sequence[FileSentence], known: Collection[str]) -> bool:
    """Whether all lines have the same number of parts and end in a tag other than punctuation."""
    rows = [sentence.tokens for sentence in sentences if sentence.tokens]
    last = {row[-1] for row in rows}
    has_columns = len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return has_columns and last <= {*known} and any(map(str.isalnum, "".join(last)))


_SCHEME = "BIOUL"  # of the model: it also marks the ends of spans
_OUTPUT_SCHEME = "BIO"


class NamedEntities(Tagging):
    """Spans of tokens, each with a type.

    The tags of files are converted to BIOUL when they are read, whatever their scheme, and those of
    the model to BIO when they are written.
    """

    metric = "f1"

    def _read(self, path, config, known):
        return read_tagged(
            *(path, config.format, config.token_column, config.tag_column, config.scheme),
            known=None if known is None else _file_tags(known, config),
            target_scheme=_SCHEME,
        )

    def read_inputs(self, path, config, known, format=None, token_column=None):
        return super().read_inputs(path, config, _file_tags(known, config), format, token_column)

    def labels(self, examples):
        return scheme_tags(span_types(super().labels(examples)), _SCHEME)

    def scores(self, gold, predicted):
        return span_scores(gold, predicted, _SCHEME)

    def lines(self, examples, predicted):
        return super().lines(examples, [converted(t, _SCHEME, _OUTPUT_SCHEME) for t in predicted])

    def model_arguments(self, config):
        return {**super().model_arguments(config), "scheme": _SCHEME}


def _file_tags(labels, config):
    """The tags that files may have, for the labels of a model."""
    return scheme_tags(span_types(labels), config.scheme)
