"""The command `elmo-tf`: every part of the project's way, from text to vectors over the network.

TensorFlow is imported when a subcommand runs, not by this module, so that `--help` is quick.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags
from absl.flags import argparse_flags

import elmo_tf
from elmo_tf.commands import (
    compare,
    convert,
    embed,
    evaluate,
    export,
    export_projector,
    neighbors,
    plot,
    probe,
    query,
    score,
    senses,
    serve,
    server_files,
    substitutes,
    task,
    train,
    vocab,
)
from elmo_tf.logs import import_tensorflow, plain_logs

# In the order of the help; those with subcommands of their own are groups.
_SUBCOMMANDS = (
    vocab,
    train,
    evaluate,
    score,
    substitutes,
    probe,
    senses,
    neighbors,
    compare,
    convert,
    export,
    serve,
    server_files,
    query,
    embed,
    task,
    plot,
    export_projector,
)
_GROUPS = (task, plot)

DONE, FAILED, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130


def run() -> None:
    """Entry point of the console command."""
    app.run(_main, flags_parser=_parse)


def _parse(argv: Sequence[str]) -> Any:
    # absl's own flags stay at their defaults: all options are those of the subcommands.
    flags.FLAGS(argv[:1])
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
        arguments.command(arguments)
        sys.stdout.flush()
        return DONE
    except KeyboardInterrupt:
        return _fail("Interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # Who read the results has enough of them; nothing more can be written there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if arguments.debug:
            raise
        # Only refusals to overwrite are the caller's to mend by another call.
        status = WRONG_CALL if isinstance(error, FileExistsError) else FAILED
        known = isinstance(error, OSError | ValueError | RuntimeError | ArithmeticError)
        known |= type(error).__module__.startswith("elmo_tf.")
        return _fail(str(error) if known else f"{type(error).__name__}: {error}", status)


def _fail(message: str, status: int) -> int:
    print(f"elmo-tf: {' '.join(message.split())}", file=sys.stderr)
    return status


class _Parser(argparse_flags.ArgumentParser):
    """Begins its help with a line to paste, and refuses unknown arguments itself."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any):
        super().__init__(*args, inherited_absl_flags=None, **kwargs)
        self._example = example

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # argparse hands what a subcommand does not know to the root, which prints its own usage.
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def format_help(self) -> str:
        return (
            f"{self._example}\n\n{super().format_help()}"
            if self._example
            else super().format_help()
        )


def build_parser() -> argparse_flags.ArgumentParser:
    """The parser of the command and all its subcommands."""
    parser = _Parser(
        prog="elmo-tf",
        description="ELMo: pretrain, export, serve and query a biLM.",
        example="elmo-tf train --help",
        epilog="Results go to stdout, all else to stderr. Exit status: 0 done, 2 the call was "
        "wrong (an output in use too), 1 anything else.",
    )
    parser.add_argument("--version", action="version", version=f"elmo_tf {elmo_tf.__version__}")
    parser.set_defaults(command=None)
    add, add_group = _adders(parser, "subcommands", "SUBCOMMAND")
    for module in _SUBCOMMANDS:
        module.add_command(add_group if module in _GROUPS else add)
    return parser


def _adders(
    parser: argparse_flags.ArgumentParser, title: str, metavar: str, required: bool = False
) -> tuple[Callable, Callable]:
    """Two functions that add subcommands to a parser: one of its own, or a group of further ones.

    Args:
        parser: to be added to.
        title, metavar: what the subcommands are in its help.
        required: whether argparse refuses a call without any.
    """
    subparsers = parser.add_subparsers(title=title, metavar=metavar, required=required)

    def add_parser(name: str, summary: str, example: str) -> argparse_flags.ArgumentParser:
        return subparsers.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", example=example
        )

    def add(
        name: str, command: Callable, summary: str, example: str
    ) -> argparse_flags.ArgumentParser:
        sub = add_parser(name, summary, example)
        sub.set_defaults(command=command)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        return sub

    def add_group(name: str, summary: str, example: str, metavar: str) -> Callable:
        group = add_parser(name, summary, example)
        return _adders(group, f"{metavar.lower()}s", metavar, required=True)[0]

    return add, add_group


if __name__ == "__main__":
    run()
