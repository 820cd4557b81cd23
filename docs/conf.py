"""Settings of Sphinx: `make docs` builds the site from docs/ and from the docstrings."""

from pathlib import Path

import elmo_tf
from elmo_tf.cli import new_app

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


def write_command_page(app: object) -> None:
    """Writes the page of all subcommands from their signatures and docstrings."""
    page = new_app().generate_docs(output_format="markdown", heading_level=1)
    path = Path(__file__).parent / "reference" / "commands.md"
    if not path.exists() or path.read_text("utf-8") != page:
        path.write_text(page, "utf-8")


def setup(app: object) -> None:
    """Registers what runs before a build."""
    app.connect("builder-inited", write_command_page)
