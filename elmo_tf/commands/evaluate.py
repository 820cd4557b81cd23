"""The subcommand `evaluate`: the perplexity of a text."""

from elmo_tf.commands.options import LanguageModel, TextFiles, print_json, stdin_in_a_file


def evaluate(checkpoint: LanguageModel, files: TextFiles, /) -> None:
    """Measure perplexity per token, with the full softmax."""
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.perplexity import perplexity
    from elmo_tf.text.reading import sentence_files

    with stdin_in_a_file(files) as patterns:
        found = sentence_files(patterns)
        print_json(perplexity(load_language_model(checkpoint), found))
