import pytest

from elmo_tf.extras import MissingExtraError, require_extra


def test_a_module_that_is_there_is_given():
    import json.decoder

    assert require_extra("json.decoder", "plot", "A picture") is json.decoder


def test_a_missing_package_is_told_with_the_extra_that_brings_it():
    with pytest.raises(
        MissingExtraError,
        match=r"A picture needs no_such_package. Install it with: pip install 'elmo_tf\[plot\]'",
    ):
        require_extra("no_such_package.figure", "plot", "A picture")


def test_what_an_installed_package_lacks_is_told_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import no_such_part")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        require_extra("broken_package", "plot", "A picture")
