import pytest

from elmo_tf.saved_models.versions import check_new_version, versions_in


def test_versions_are_numbered_folders_with_a_model(tmp_path):
    for name in ("1", "007", "12", "x", "-3", "\N{FULLWIDTH DIGIT ONE}", "5a"):
        (tmp_path / name).mkdir()
        if name != "12":
            (tmp_path / name / "saved_model.pb").touch()

    assert versions_in(tmp_path) == {1: tmp_path / "1", 7: tmp_path / "007"}
    assert versions_in(tmp_path / "nowhere") == {}


def test_a_number_beyond_int64_is_not_a_version(tmp_path):
    for name in (str(2**63), str(2**63 - 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    assert list(versions_in(tmp_path)) == [2**63 - 1]


def test_an_existing_version_is_an_error_that_suggests_the_next(tmp_path):
    for name in ("1", "3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()

    with pytest.raises(FileExistsError, match=r"1 exists\. Add `--version 4` or `--overwrite` "):
        check_new_version(tmp_path, 1, overwrite=False)
    check_new_version(tmp_path, 1, overwrite=True)
    check_new_version(tmp_path, 2, overwrite=False)
