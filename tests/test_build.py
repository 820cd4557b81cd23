"""Holds BUILD against the modules and their imports: no Bazel is needed, and no TensorFlow."""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAPPED = ("saved_models", "trainers")  # imported as elmo_tf.saved_models and elmo_tf.trainers
# Packages that are imported by another name than they are installed by.
DISTRIBUTIONS = {
    "absl": "absl_py",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio_health_checking",
    "grpc_reflection": "grpcio_reflection",
    "tensorflow_serving": "tensorflow_serving_api",
    "yaml": "pyyaml",
}


def calls(file):
    """The rules that a Bazel file calls: their keywords, and `kind`."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    nodes = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    return [
        {"kind": node.func.id} | {word.arg: ast.literal_eval(word.value) for word in node.keywords}
        for node in nodes
        if isinstance(node, ast.Call)
    ]


def python_files(*folders):
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix() for path in paths}


def module_name(file):
    """How `file` is imported, say `trainers/config.py` as `elmo_tf.trainers.config`."""
    dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if dotted.startswith(MAPPED):
        return f"elmo_tf.{dotted}"
    return dotted.removeprefix("tests.")


RULES = calls("BUILD")
LIBRARIES = [rule for rule in RULES if rule["kind"] == "py_library"]
TESTS = [rule for rule in RULES if rule["kind"] == "py_test"]
GENERATED = {file for rule in RULES for file in rule.get("outs", [])}

MODULES = python_files("elmo_tf", *MAPPED, "examples")
TEST_FILES = {file for file in python_files("tests") if Path(file).name.startswith("test_")}
SUPPORT = python_files("tests") - TEST_FILES
FILE_OF = {module_name(file): file for file in MODULES | SUPPORT}
TARGET_OF = {file: f":{rule['name']}" for rule in LIBRARIES for file in rule["srcs"]}


def imported_names(file):
    """All that `file` imports, at its top or in a function; for an `__init__`, by name too."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=parent, names=names, level=0):
                yield from (f"{parent}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                pytest.fail(f"{file}, line {node.lineno}: this test cannot read relative imports")
            case ast.Constant(value=str(text)) if file.endswith("/__init__.py"):
                yield from {text, f"{module_name(file)}.{text}"} & FILE_OF.keys()


def label(name):
    """The target that `import name` needs, None for the standard library."""
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names:
        return None
    while name not in FILE_OF and "." in name:
        name = name.rpartition(".")[0]
    if name in FILE_OF:
        return TARGET_OF.get(FILE_OF[name], f"the missing target of {FILE_OF[name]}")
    return f"@pypi//{DISTRIBUTIONS.get(root, root)}"


def needed(rule):
    """The labels that `rule` has to depend on."""
    files = [file for file in rule["srcs"] if file not in GENERATED and not file.startswith(":")]
    labels = {label(name) for file in files for name in imported_names(file)}
    if rule["kind"] == "py_test":
        conftests = (f"{folder}/conftest.py" for folder in Path(files[0]).parents)
        labels |= {"@pypi//pytest"} | {TARGET_OF[file] for file in conftests if file in TARGET_OF}
    if any(file.startswith(MAPPED) for file in files):
        labels.add(":mapped_packages")
    return labels - {None, f":{rule['name']}"}


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
