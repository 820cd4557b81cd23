import pytest

from elmo_tf.extras import MissingExtraError, require_extra


def test_the_error_for_a_missing_package_names_the_extra():
    with pytest.raises(
        MissingExtraError,
        match=r"A picture needs no_such_package. Install it with: pip install 'elmo_tf\[plot\]'",
    ):
        require_extra("no_such_package.figure", "plot", "A picture")


def test_import_errors_inside_an_installed_package_are_unchanged(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import no_such_part")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        require_extra("broken_package", "plot", "A picture")
