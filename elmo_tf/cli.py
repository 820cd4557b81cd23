"""The command `elmo-tf` and its exit codes.

The options of a subcommand are declared by dataclasses (`elmo_tf.settings`); this module alone
translates them for argparse. TensorFlow is imported when a subcommand runs, so that `--help` is
quick.
"""

import argparse
import difflib
import importlib
import os
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from absl import app, flags
from absl.flags import argparse_flags
from pydantic.fields import FieldInfo

import elmo_tf
from elmo_tf.commands.options import Subcommand
from elmo_tf.logs import import_tensorflow, plain_logs
from elmo_tf.settings import element_of, option_of, parse_value, settings_of, value_type

# Modules of `elmo_tf.commands`, in the order of the help.
_SUBCOMMANDS = (
    *("models", "tokenize", "vocab", "train", "evaluate", "score", "substitutes"),
    *("probe", "senses", "neighbors", "benchmark"),
    *("convert", "export", "serve", "query", "embed", "distill", "diff", "task", "plot"),
)

DONE, FAILED, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130
_MAX_USAGE_LINES = 5  # before an error


def run() -> None:
    """Entry point of the console script."""
    app.run(_main, flags_parser=_parse)


def _parse(argv: Sequence[str]) -> Any:
    flags.FLAGS(argv[:1])  # absl's own flags keep their defaults
    parser = build_parser()
    arguments = parser.parse_args(argv[1:])
    if arguments.subcommand is None:
        parser.print_help(sys.stderr)
        sys.exit(WRONG_CALL)
    return arguments


def _main(arguments: Any) -> int:
    plain_logs()
    try:
        options = _options_of(arguments)
        if arguments.subcommand.needs_tensorflow:
            import_tensorflow()
        status = arguments.subcommand.run(*options)
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
    message = re.sub(r"^\[Errno \d+\] ", "", " ".join(message.split()))  # of an OSError
    print(f"elmo-tf: {message}", file=sys.stderr)
    return status


def _options_of(arguments: argparse.Namespace) -> list[Any]:
    """The options of a call, as its subcommand takes them. A wrong call exits with status 2."""
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(arguments).items()
    }
    return [
        _new_options(arguments.parser, options_class, {k: given[k] for k in names if k in given})
        for options_class, names in arguments.subcommand.parameters
    ]


def _new_options(parser: Any, options_class: Any, settings: Mapping[str, Any]) -> Any:
    reason = ""
    if settings.get("resume") and "workdir" in settings:
        try:
            return options_class.resumed(**settings)  # needs only the settings that change
        except FileNotFoundError:
            reason = f" ({settings['workdir']} contains no run to resume)"
    required = [name for name, field in settings_of(options_class).items() if field.is_required()]
    missing = [f"--{name}" for name in required if name not in settings]
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}{reason}")
    try:
        return options_class(**settings)
    except ValueError as error:
        return parser.error(str(error))


class _Parser(argparse_flags.ArgumentParser):
    """A parser whose help begins with an example, and that rejects unknown arguments itself."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any):
        super().__init__(*args, inherited_absl_flags=None, **kwargs)
        self._example = example
        for action in self._actions:
            if "--helpfull" in action.option_strings:  # absl's; it shows nothing more
                action.help = argparse.SUPPRESS

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # argparse reports a subcommand's unknown arguments with the usage of the root parser.
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return namespace, unknown

    def print_usage(self, file: Any = None) -> None:
        # Of a subcommand with many options, the error below it would be hard to find.
        if self.format_usage().count("\n") > _MAX_USAGE_LINES:
            print(f"usage: {self.prog} ... (options: {self.prog} --help)", file=file)
        else:
            super().print_usage(file)

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
    parser.set_defaults(subcommand=None)
    commands = [
        getattr(importlib.import_module(f"elmo_tf.commands.{name}"), name) for name in _SUBCOMMANDS
    ]
    _add_subcommands(parser, "SUBCOMMAND", commands, is_required=False)
    return parser


def _add_subcommands(
    parser: Any, metavar: str, commands: Sequence[Subcommand], is_required: bool = True
) -> None:
    subparsers = parser.add_subparsers(
        title=f"{metavar.lower()}s", metavar=metavar, required=is_required
    )
    for command in commands:
        summary = command.summary
        sub = subparsers.add_parser(
            command.name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            example=command.example,
            epilog=command.epilog,
        )
        if command.subcommands:
            _add_subcommands(sub, command.metavar, command.subcommands)
            continue
        sub.set_defaults(subcommand=command, parser=sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        for options_class, names in command.parameters:
            _add_options(sub, options_class, names)


def _add_options(parser: Any, options_class: Any, names: Sequence[str]) -> None:
    """Adds an option for each setting. The namespace contains only the options that are given."""
    group = parser
    for name in names:
        field = settings_of(options_class)[name]
        if option_of(field).group is not None:
            group = parser.add_argument_group(option_of(field).group)
        _add_option(group, name, field, has_resume="resume" in names)


def _add_option(group: Any, name: str, field: FieldInfo, has_resume: bool) -> None:
    option, kind = option_of(field), value_type(field)[0]
    is_list, element_kind = typing.get_origin(kind) is tuple, value_type(element_of(field))[0]
    words = [name] if option.is_positional else [option.name or f"--{name.replace('_', '-')}"]
    shared: dict[str, Any] = {} if option.is_positional else {"dest": name}
    shared |= {"default": argparse.SUPPRESS, "help": field.description}
    if kind is bool:
        action = "store_false" if field.default else "store_true"
        group.add_argument(*words, action=action, **shared)
        return
    if field.is_required():
        shared["help"] += " (required without --resume)" if has_resume else ""
    else:
        default = option.default_help
        if default is None and field.default not in (None, (), ""):
            is_float = isinstance(field.default, float)
            default = f"{field.default:g}" if is_float else str(field.default)
        shared["help"] += f" (default: {default})" if default else ""
    if option.is_positional and (is_list or not field.is_required()):
        shared["nargs"] = ("+" if field.is_required() else "*") if is_list else "?"
    elif option.is_repeatable:
        shared["action"] = "append"
    elif is_list:
        shared |= {"nargs": "+", "action": "extend"}
    if not option.is_positional:
        shared["required"] = field.is_required() and not has_resume
    if typing.get_origin(element_kind) is Literal:
        shared["choices"] = typing.get_args(element_kind)
    else:
        shared["metavar"] = option.metavar or {int: "N", float: "X"}.get(element_kind, "FILE")
    group.add_argument(*words, type=_parser_of(field), **shared)


def _parser_of(field: FieldInfo) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text is argparse.SUPPRESS:  # a positional argument that is not given
            return text
        try:
            return parse_value(field, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


if __name__ == "__main__":
    run()
