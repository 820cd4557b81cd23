"""Holds BUILD against the modules and their imports: no Bazel is needed, and no TensorFlow.

`python tests/write_build.py` brings BUILD up to date.
"""

from collections import Counter

import pytest

from bazel_rules import (
    GENERATED,
    LIBRARIES,
    MAPPED,
    MODULES,
    ROOT,
    RULES,
    SUPPORT,
    TEST_FILES,
    TESTS,
    calls,
    needed,
)


@pytest.mark.parametrize("files", [MODULES, SUPPORT], ids=["modules", "support"])
def test_every_module_is_in_exactly_one_library(files):
    counts = Counter(file for rule in LIBRARIES for file in rule["srcs"])

    assert {file: counts[file] for file in files if counts[file] != 1} == {}


def test_every_test_file_is_in_exactly_one_test():
    counts = Counter(file for rule in TESTS for file in rule["srcs"] if file not in GENERATED)

    assert counts == dict.fromkeys(TEST_FILES, 1)


@pytest.mark.parametrize("rule", TESTS, ids=lambda rule: rule["name"])
def test_a_test_runs_its_own_file(rule):
    file = f"{rule['name']}.py"

    assert rule["args"] == [file]
    assert set(rule["srcs"]) == {file, rule["main"]}


def test_a_library_is_called_after_a_file_of_its_own():
    named = [rule for rule in LIBRARIES if rule["name"] != "mapped_packages"]
    ends = (".py", "/__init__.py")

    assert [
        rule["name"]
        for rule in named
        if not any(rule["name"] + end in rule["srcs"] for end in ends)
    ] == []


def test_what_a_package_holds_beside_modules_is_data_of_one_of_them():
    folders = [ROOT / folder for folder in ("elmo_tf", *MAPPED)]
    held = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "py.typed"
    }
    assert held <= {file for rule in LIBRARIES for file in rule.get("data", [])}


def test_every_file_and_target_named_exists():
    targets = {f":{rule['name']}" for rule in RULES if "name" in rule}
    named = {
        word
        for rule in RULES
        for key in ("srcs", "data", "deps")
        for word in rule.get(key, [])
        if not word.startswith("@pypi//")
    }

    missing = named - GENERATED - targets
    assert {word for word in missing if not (ROOT / word).is_file()} == set()


@pytest.mark.parametrize("rule", LIBRARIES + TESTS, ids=lambda rule: rule["name"])
def test_dependencies_are_the_imports(rule):
    assert set(rule.get("deps", [])) == needed(rule)


@pytest.mark.parametrize("folder", MAPPED)
def test_mapped_packages_are_where_setup_puts_them(folder):
    assert f"elmo_tf/{folder}/__init__.py" in GENERATED
    assert f'"elmo_tf.{folder}": "{folder}"' in (ROOT / "setup.py").read_text(encoding="utf-8")


def test_third_party_packages_are_locked_and_known_to_old_bazel():
    used = {word for rule in RULES for word in rule.get("deps", []) if word.startswith("@pypi//")}
    lock = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8").splitlines()
    locked = {line.partition("==")[0].lower().replace("-", "_") for line in lock}
    installed = next(rule for rule in calls("WORKSPACE") if rule.get("name") == "pypi")

    packages = {word.removeprefix("@pypi//") for word in used}
    assert packages <= locked
    assert packages <= set(installed["packages"])
