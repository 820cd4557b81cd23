"""Each package has a BUILD file, and all dependencies in these files exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "trainers", ROOT / "saved_models"]
PACKAGES += [path.parent for path in (ROOT / "elmo_tf").glob("*/__init__.py")]
BUILD_FILES = [package / "BUILD" for package in [*PACKAGES, ROOT / "elmo_tf", ROOT / "tests"]]


def dependencies(prefix):
    text = "".join(file.read_text(encoding="utf-8") for file in BUILD_FILES)
    return set(re.findall(rf'"{prefix}([\w/]+)"', text))


def test_each_package_is_a_dependency_of_another():
    assert {package.relative_to(ROOT).as_posix() for package in PACKAGES} <= dependencies("//")


def test_dependencies_between_packages_exist():
    assert all((ROOT / folder / "BUILD").is_file() for folder in dependencies("//"))


def test_third_party_dependencies_are_locked():
    lock = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8").lower().replace("-", "_")
    locked = set(re.findall(r"^(\w+)==", lock, re.MULTILINE))
    assert dependencies("@pypi//") <= locked
