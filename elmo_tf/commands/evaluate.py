"""The subcommand `evaluate`: the perplexity of a text."""

from elmo_tf.commands.options import (
    LanguageModel,
    TextFiles,
    print_json,
    stdin_in_a_file,
    subcommand,
)
from elmo_tf.settings import checked_dataclass


@checked_dataclass(kw_only=True)
class _EvaluateOptions:
    checkpoint: LanguageModel
    files: TextFiles


@subcommand("elmo-tf evaluate run text.txt")
def evaluate(options: _EvaluateOptions) -> None:
    """Measure perplexity per token, with the full softmax."""
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.perplexity import perplexity
    from elmo_tf.text.corpus import check_tokens
    from elmo_tf.text.reading import sentence_files

    with stdin_in_a_file(options.files) as patterns:
        files = sentence_files(patterns)
        check_tokens(files)
        print_json(perplexity(load_language_model(options.checkpoint), files))
