"""Tokenization of raw text inside an exported model, with tensorflow-text."""

import tensorflow as tf

from elmo_tf.text.sentences import WHITESPACE

# Unicode's punctuation and symbols.
_PUNCTUATION = r"[\pP\pS]"


class PunctuationSplitter:
    """Splits at whitespace and around every punctuation mark and symbol.

    Case and accents are preserved. Needs tensorflow-text, both for export and for loading the
    exported model.
    """

    def split_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits text; the interface of the splitters of tensorflow-text.

        Args:
            text: string (batch,).

        Returns:
            The tokens and their start and end offsets in bytes, (batch, token) each.
        """
        import tensorflow_text

        return tensorflow_text.regex_split_with_offsets(
            text, rf"{WHITESPACE}|{_PUNCTUATION}", _PUNCTUATION
        )
