"""Tasks with one tag per token."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from elmo_tf.evaluation.task_scores import span_scores, tag_scores
from elmo_tf.tasks import CRFTagger
from elmo_tf.tasks.data.tag_schemes import converted, scheme_tags, span_types
from elmo_tf.tasks.data.tagged_sentences import read_tagged
from elmo_tf.text.sentence_files import FileSentence, format_of
from elmo_tf.trainers.tasks.kinds.base import TaskKind, sentences_of

# Files of named entities are converted to BIO; models predict BIOUL, which also marks span ends.
_FILE_SCHEME, _MODEL_SCHEME = "BIO", "BIOUL"


class Tagging(TaskKind):
    """One tag per token."""

    models: ClassVar = {"crf": CRFTagger}
    model_scheme: ClassVar[str | None] = None  # of tags that mark spans

    def _read(self, path, settings, known):
        columns = [settings[name] for name in ("format", "token_column", "tag_column")]
        scheme = settings["scheme"] if self.model_scheme else None
        return read_tagged(path, *columns, scheme=scheme, known=known)

    def read_inputs(self, path, settings, known):
        sentences = sentences_of(path, settings)
        is_text = settings["format"] is None and format_of(path) == "text"
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

    def predict(self, model, inputs, examples):
        return model.tag(inputs)

    def scores(self, gold, predicted):
        return tag_scores(gold, predicted)

    def lines(self, examples, predicted):
        for example, tags in zip(examples, predicted, strict=True):
            pairs = zip(example.tokens, tags, strict=True)
            yield from (f"{token}\t{tag}" for token, tag in pairs)
            yield ""

    def model_arguments(self, config):
        arguments = {**super().model_arguments(config), "scheme": self.model_scheme}
        if config.units is not None:
            arguments["units"] = (config.units, max(config.units // 2, 1))
        return arguments


def _look_like_columns(sentences: Sequence[FileSentence], known: Collection[str]) -> bool:
    """Whether all lines have the same number of parts and end in a tag other than punctuation."""
    rows = [sentence.tokens for sentence in sentences if sentence.tokens]
    last = [row[-1] for row in rows]
    return (
        len({len(row) for row in rows}) == 1
        and len(rows[0]) > 1
        and all(tag in known for tag in last)
        and any(character.isalnum() for tag in last for character in tag)
    )


class NamedEntities(Tagging):
    """Spans of tokens, each with a type."""

    metric = "f1"
    model_scheme = _MODEL_SCHEME

    def labels(self, examples):
        tags = (tag for example in examples for tag in example.tags)
        return scheme_tags(span_types(tags), _MODEL_SCHEME)

    def file_labels(self, labels):
        return scheme_tags(span_types(labels), _FILE_SCHEME)

    def target(self, model, example):
        return model.label_ids(converted(example.tags, _FILE_SCHEME, _MODEL_SCHEME))

    def predict(self, model, inputs, examples):
        return [converted(tags, _MODEL_SCHEME, _FILE_SCHEME) for tags in model.tag(inputs)]

    def scores(self, gold, predicted):
        return span_scores(gold, predicted)
