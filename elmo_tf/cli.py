"""The command `elmo-tf`: its subcommands, messages and exit codes.

A subcommand is a function of `elmo_tf.commands`; its signature and docstring are the options and
the help. They import TensorFlow when they run, so that `--help` is quick.
"""

import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence

import cyclopts
import pydantic
from cyclopts import App, Parameter

import elmo_tf
from elmo_tf.commands.options import WrongCallError, with_tokenizer
from elmo_tf.logs import plain_logs
from elmo_tf.processors import import_tensorflow
from elmo_tf.settings import one_line

# The first line of each subcommand's help, a call that works as pasted. In the order of the help.
_EXAMPLES = {
    "models": "elmo-tf models",
    "tokenize": "elmo-tf tokenize raw.txt --language de --output german.txt",
    "vocab": "elmo-tf vocab text.txt --output vocab.txt --min-count 2",
    "train": "elmo-tf train --corpus text.txt --workdir run --preset tiny --steps 200",
    "evaluate": "elmo-tf evaluate run text.txt",
    "score": "elmo-tf score small-en text.txt --per-token",
    "substitutes": "elmo-tf substitutes small-en 'The bank of the river' --position 1",
    "probe": "elmo-tf probe small-en --train train.conllu --test dev.conllu",
    "senses": "elmo-tf senses small-en --train a.data.xml --test b.data.xml --inventory s.tsv",
    "neighbors": "elmo-tf neighbors cat --model small-en --corpus text.txt",
    "benchmark": "elmo-tf benchmark small-en",
    "convert": "elmo-tf convert run converted",
    "export": "elmo-tf export run exported",
    "serve": "elmo-tf serve exported",
    "query": "elmo-tf query localhost:8500 'The bank of the river'",
    "embed": "elmo-tf embed small-en text.txt vectors.hdf5",
    "distill": "elmo-tf distill small-en --vocab vocab.txt --output vectors.txt",
    "diff": "elmo-tf diff vectors.hdf5 small-en text.txt",
    "task train": "elmo-tf task train --task ner --train a.conll --dev b.conll --workdir ner",
    "task evaluate": "elmo-tf task evaluate ner test.conll",
    "task predict": "elmo-tf task predict ner text.txt predicted.conll",
    "task export": "elmo-tf task export ner exported",
    "task sweep": "elmo-tf task sweep --task ner --train a --dev b --elmo small-en --workdir out",
    "plot training": "elmo-tf plot training run --output training.png",
    "plot similarity": "elmo-tf plot similarity 'A bank' --model small-en --output a.png",
    "plot weights": "elmo-tf plot weights ner pos --output weights.png",
    "plot sample-efficiency": "elmo-tf plot sample-efficiency sweep.json --output a.png",
}
_GROUPS = {
    "task": "Train, evaluate and use task models, such as NER taggers.",
    "plot": "Plot training curves, similarities, mixing weights or sweeps, as PNG, SVG or PDF.",
}
# The modules of subcommands that have not the subcommand's name.
_MODULES = {
    **dict.fromkeys(("vocab", "train"), "pretraining"),
    **dict.fromkeys(("evaluate", "score", "substitutes"), "language_models"),
}
_PARAMETER = Parameter(negative=(), consume_multiple=1)  # and more values
_WITHOUT_TENSORFLOW = ("models", "tokenize")

DONE, FAILED, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130


def run() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes temporary files
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as by `2>&-`
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Runs a call, given its words without the name of the command; returns the exit code."""
    # A single hyphen would be an option without a name.
    shows_traceback = "--debug" in words
    words = with_tokenizer([word for word in words if word != "--debug"])
    words = ["/dev/stdin" if word == "-" else word for word in words]
    os.environ["KERAS_BACKEND"] = "tensorflow"
    plain_logs()
    try:
        call, arguments, _ = new_app().parse_args(words, exit_on_error=False, print_error=False)
        is_subcommand = call.__module__.startswith("elmo_tf.commands")
        if is_subcommand and call.__name__ not in _WITHOUT_TENSORFLOW:
            import_tensorflow()
        status = call(*arguments.args, **arguments.kwargs)
        sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except cyclopts.CycloptsError as error:
        cause = error.__cause__
        return _fail(
            one_line(cause) if isinstance(cause, pydantic.ValidationError) else error, WRONG_CALL
        )
    except KeyboardInterrupt:
        return _fail("Interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has closed it. Python flushes stdout at exit: let that succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if shows_traceback:
            raise
        # A refusal to overwrite an output counts as a wrong call too.
        is_wrong_call = isinstance(error, FileExistsError | WrongCallError)
        status = WRONG_CALL if is_wrong_call else FAILED
        known = isinstance(
            error, OSError | ValueError | RuntimeError | ArithmeticError | ImportError
        )
        known |= type(error).__module__.startswith("elmo_tf.")
        name = "Out of memory" if isinstance(error, MemoryError) else type(error).__name__
        return _fail(error if known else f"{name}: {error}".removesuffix(": "), status)


def _fail(message: object, status: int) -> int:
    text = re.sub(r"^\[Errno \d+\] ", "", " ".join(str(message).split()))  # of an OSError
    print(f"elmo-tf: {text}", file=sys.stderr)
    return status


def new_app() -> App:
    """Returns the command with all its subcommands."""
    app = App(
        name="elmo-tf",
        version=f"elmo_tf {elmo_tf.__version__}",
        help="Embed text with ELMo; pretrain, evaluate, export and serve models.",
        help_prologue="echo 'The bank of the river' | elmo-tf embed small-en - vectors.hdf5",
        help_epilogue="Results go to stdout, all else to stderr; --debug shows the traceback of an "
        "error. An option with several values (STR...) takes all words after it, but for query: "
        "write arguments first. Exit status: 0 done; 1 error; 2 wrong call, or an output exists; 3 "
        "differences (diff); 130 Ctrl-C; 143 SIGTERM.",
        help_format="markdown",
        default_parameter=_PARAMETER,
    )
    for name, summary in _GROUPS.items():
        # The generated page does not inherit the parameter.
        group = App(name=name, help=summary, help_epilogue="", default_parameter=_PARAMETER)
        app.command(group)
    for place, (words, example) in enumerate(_EXAMPLES.items()):
        *group, name = words.split()
        first = words.split()[0]
        module = importlib.import_module(f"elmo_tf.commands.{_MODULES.get(first, first)}")
        parent = app[group[0]] if group else app
        parent.help_prologue = parent.help_prologue or example
        parent.command(
            getattr(module, name.replace("-", "_")),
            name=name,
            help_prologue=example,
            help_epilogue="",
            sort_key=place,
        )
    return app


if __name__ == "__main__":
    run()
