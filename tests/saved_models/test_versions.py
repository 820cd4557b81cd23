import pytest

from elmo_tf.saved_models.versions import check_new_version, versions_in


def test_versions_are_numbered_folders_with_a_model(tmp_path):
    names = ("1", "007", "12", "x", "-3", "\N{FULLWIDTH DIGIT ONE}", "5a", str(2**63))
    for name in (*names, str(2**63 - 1)):
        (tmp_path / name).mkdir()
        if name != "12":
            (tmp_path / name / "saved_model.pb").touch()

    folders = {1: "1", 7: "007", 2**63 - 1: str(2**63 - 1)}
    assert versions_in(tmp_path) == {number: tmp_path / name for number, name in folders.items()}
    assert versions_in(tmp_path / "nowhere") == {}


def test_an_existing_version_is_an_error_that_suggests_the_next(tmp_path):
    for name in ("1", "3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()

    with pytest.raises(FileExistsError, match=r"1 exists\. Add `--version 4` or `--overwrite` "):
        check_new_version(tmp_path, 1, overwrite=False)
    check_new_version(tmp_path, 1, overwrite=True)
    check_new_version(tmp_path, 2, overwrite=False)
