"""The subcommand `tokenize`: raw text ─► one tokenized sentence per line."""

from absl import logging

from elmo_tf.commands.options import Overwrite, subcommand, text_sources
from elmo_tf.settings import Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _TokenizeOptions:
    files: Texts = setting(
        is_positional=True, metavar="FILES", help="raw text; .gz is decompressed; - is stdin"
    )
    language: str = setting(
        metavar="LANG", help="language of spaCy's tokenizer (en, de, …, or xx for any)"
    )
    output: str = setting(help="text, one tokenized sentence per line")
    overwrite: Overwrite = False


@subcommand("elmo-tf tokenize raw.txt --language de --output german.txt")
def tokenize(options: _TokenizeOptions) -> None:
    """Split raw text into sentences and tokens, as vocab and train read them."""
    from elmo_tf.files import atomic_file, refuse_file
    from elmo_tf.progress import progress_over
    from elmo_tf.text.reading import encode
    from elmo_tf.text.sentence_files import reported_lines
    from elmo_tf.text.tokenizers import SpacyTokenizer

    refuse_file(options.output, options.overwrite)
    tokenizer = SpacyTokenizer(options.language)
    lines = reported_lines(text_sources(options.files))
    num_sentences = num_tokens = 0
    with atomic_file(options.output, options.overwrite) as part, open(part, "wb") as file:
        for line in progress_over(lines, None, "tokenizing", "lines"):
            for sentence in tokenizer(line):
                file.write(encode(" ".join(token.text for token in sentence)) + b"\n")
                num_sentences += 1
                num_tokens += len(sentence)
    logging.info("%s holds %d sentences of %d tokens.", options.output, num_sentences, num_tokens)
