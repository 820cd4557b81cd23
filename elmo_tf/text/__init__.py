"""Text processing: tokens, char ids, vocabularies, text files and language-model windows."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "Vocabulary": "elmo_tf.text.vocabulary",
    "char_ids": "elmo_tf.text.characters",
    "split_tokens": "elmo_tf.text.inputs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
