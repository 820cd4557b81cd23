"""Text processing: tokens, char ids, vocabularies, text files and language-model windows."""

from elmo_tf.text.char_ids import char_ids as char_ids
from elmo_tf.text.sentences import split_tokens as split_tokens
from elmo_tf.text.vocabulary import Vocabulary as Vocabulary
