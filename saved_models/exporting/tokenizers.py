"""Tokenization of raw text inside an exported model, with tensorflow-text."""

import tensorflow as tf

# The white space of `str.split()`, and Unicode's punctuation and symbols.
_WHITE_SPACE = r"[\pZ\x{85}\x1c-\x1f\s\v]+"
_PUNCTUATION = r"[\pP\pS]"


class PunctuationSplitter:
    """Splits at white space and around every punctuation mark and symbol.

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
            text, rf"{_WHITE_SPACE}|{_PUNCTUATION}", _PUNCTUATION
        )
