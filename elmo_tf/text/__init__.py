"""Sentences → tokens → char ids, in the graph; vocabularies; windows of running text."""

from elmo_tf.text.char_ids import char_ids as char_ids
from elmo_tf.text.sentences import split_tokens as split_tokens
from elmo_tf.text.vocabulary import Vocabulary as Vocabulary
