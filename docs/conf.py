"""Settings of Sphinx: `make docs` builds the site from docs/ and from the docstrings."""

import argparse
from pathlib import Path

import elmo_tf
from elmo_tf.cli import build_parser

project = "elmo_tf"
version = release = elmo_tf.__version__
html_theme = "furo"
html_title = f"elmo_tf {version}"
exclude_patterns = ["_build"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
default_role = "code"  # docstrings quote code as Markdown does
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # Keras's docstrings are Markdown
autodoc_typehints = "none"  # Args name the types
napoleon_custom_sections = [("Call arguments", "params_style")]
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def write_command_pages(app: object) -> None:
    """Writes a page for each subcommand from its parser."""
    folder = Path(__file__).parent / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    pages = _help_texts(build_parser())
    for name, text in pages.items():
        page = f"# `{name}`\n\n```text\n{text.strip()}\n```\n"
        path = folder / f"{name.replace(' ', '-')}.md"
        if not path.exists() or path.read_text("utf-8") != page:
            path.write_text(page, "utf-8")


def _help_texts(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The help of a parser and of all its subcommands, by their full names."""
    pages = {parser.prog: parser.format_help()}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                pages |= _help_texts(subparser)
    return pages


def setup(app: object) -> None:
    """Registers what runs before a build."""
    app.connect("builder-inited", write_command_pages)
