"""Raw text ─► tokens, within an exported model, by an operation of tensorflow-text."""

import tensorflow as tf

from elmo_tf.text.sentences import WHITESPACE

# Unicode's punctuation and symbols.
_PUNCTUATION = r"[\pP\pS]"


class PunctuationSplitter:
    """Splits at white space, and makes a token of every punctuation mark and symbol.

    Nothing else changes: case and accents stay. It needs tensorflow-text, and so does whoever loads
    a model that was exported with it.
    """

    def split_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits text, as the splitters of tensorflow-text do.

        Args:
            text: string (batch,).

        Returns:
            The tokens, and where each begins and ends in its text, in bytes: (batch, token) each.
        """
        import tensorflow_text

        return tensorflow_text.regex_split_with_offsets(
            text, rf"{WHITESPACE}|{_PUNCTUATION}", _PUNCTUATION
        )
