"""The command `elmo-tf` and its exit codes.

TensorFlow is imported when a subcommand runs, not by this module, so that `--help` is quick.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags
from absl.flags import argparse_flags

import elmo_tf
from elmo_tf.logs import import_tensorflow, plain_logs

# Modules of `elmo_tf.commands`, in the order of the help.
_SUBCOMMANDS = (
    "tokenize",
    "vocab",
    "train",
    "evaluate",
    "score",
    "substitutes",
    "probe",
    "senses",
    "neighbors",
    "compare",
    "convert",
    "export",
    "serve",
    "server_files",
    "query",
    "embed",
    "distill",
    "diff",
    "task",
    "plot",
)

DONE, FAILED, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130


def run() -> None:
    """Entry point of the console script."""
    app.run(_main, flags_parser=_parse)


def _parse(argv: Sequence[str]) -> Any:
    flags.FLAGS(argv[:1])  # absl's own flags keep their defaults
    parser = build_parser()
    arguments = parser.parse_args(argv[1:])
    if arguments.command is None:
        parser.print_help(sys.stderr)
        sys.exit(WRONG_CALL)
    return arguments


def _main(arguments: Any) -> int:
    plain_logs()
    try:
        import_tensorflow()
        status = arguments.command(arguments)
        sys.stdout.flush()
        return status or DONE
    except KeyboardInterrupt:
        return _fail("Interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has closed it. Python flushes stdout at exit: let that succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if arguments.debug:
            raise
        # Of all errors, only a refusal to overwrite an output counts as a wrong call.
        status = WRONG_CALL if isinstance(error, FileExistsError) else FAILED
        known = isinstance(error, OSError | ValueError | RuntimeError | ArithmeticError)
        known |= type(error).__module__.startswith("elmo_tf.")
        return _fail(str(error) if known else f"{type(error).__name__}: {error}", status)


def _fail(message: str, status: int) -> int:
    print(f"elmo-tf: {' '.join(message.split())}", file=sys.stderr)
    return status


class _HelpFormatter(argparse.HelpFormatter):
    """Appends the default to the help of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        is_complete = not action.option_strings or action.nargs == 0 or "(default: " in action.help
        if is_complete or action.default in (None, argparse.SUPPRESS, [], ()):
            return action.help
        return f"{action.help} (default: %(default)s)"


class _Store(argparse.Action):
    """Stores a value; a repeated option with a list of values has all of them."""

    def __call__(self, parser, namespace, values, option_string=None):
        stored = getattr(namespace, self.dest, self.default)
        if isinstance(values, list) and stored is not self.default:
            values = [*stored, *values]
        setattr(namespace, self.dest, values)


class _Parser(argparse_flags.ArgumentParser):
    """A parser whose help begins with an example, and that rejects unknown arguments itself."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any):
        super().__init__(*args, inherited_absl_flags=None, formatter_class=_HelpFormatter, **kwargs)
        self._example = example
        self.register("action", None, _Store)
        for action in self._actions:
            if "--helpfull" in action.option_strings:  # absl's; it shows nothing more
                action.help = argparse.SUPPRESS

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # argparse reports a subcommand's unknown arguments with the usage of the root parser.
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def format_help(self) -> str:
        return f"{self._example}\n\n{super().format_help()}"


def build_parser() -> argparse_flags.ArgumentParser:
    """Returns the parser of the command and of all its subcommands."""
    parser = _Parser(
        prog="elmo-tf",
        description="Embed text with ELMo; pretrain, evaluate, export and serve models.",
        example="echo 'The bank of the river' | elmo-tf embed small-en - vectors.hdf5",
        epilog="Options of a subcommand: elmo-tf SUBCOMMAND --help. Results go to stdout, all "
        "else to stderr. Exit status: 0 done; 1 error; 2 wrong call, or an output exists; 3 "
        "differences (diff); 130 Ctrl-C; 143 SIGTERM.",
    )
    parser.add_argument("--version", action="version", version=f"elmo_tf {elmo_tf.__version__}")
    parser.set_defaults(command=None)
    add = _adder(parser, "SUBCOMMAND", required=False)
    for name in _SUBCOMMANDS:
        importlib.import_module(f"elmo_tf.commands.{name}").add_command(add)
    return parser


def _adder(parser: argparse_flags.ArgumentParser, metavar: str, required: bool = True) -> Callable:
    """Returns a function that adds a subcommand to a parser.

    `add(name, command, summary, example)` returns the parser of the subcommand, which calls
    `command`. `add(name, None, summary, example, metavar)` adds a group and returns the function
    that adds subcommands to it.
    """
    subparsers = parser.add_subparsers(
        title=f"{metavar.lower()}s", metavar=metavar, required=required
    )

    def add(
        name: str, command: Callable | None, summary: str, example: str, metavar: str | None = None
    ) -> Any:
        description = f"{summary[0].upper()}{summary[1:]}."
        sub = subparsers.add_parser(name, help=summary, description=description, example=example)
        if command is None:
            return _adder(sub, metavar)
        sub.set_defaults(command=command, refuse_call=sub.error)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        return sub

    return add


if __name__ == "__main__":
    run()
