"""The BUILD files name every package, its imports, and locked third-party packages."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARIES = (*sorted((ROOT / "elmo_tf").glob("*/__init__.py")), ROOT / "trainers" / "__init__.py")
PACKAGES = [path.parent.relative_to(ROOT).as_posix() for path in LIBRARIES] + ["saved_models"]
# Packages whose import name differs from their distribution name.
DISTRIBUTIONS = {
    "absl": "absl_py",
    "faiss": "faiss_cpu",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio_health_checking",
    "grpc_reflection": "grpcio_reflection",
    "sklearn": "scikit_learn",
    "tensorflow_serving": "tensorflow_serving_api",
}
# `Elmo.from_pretrained` imports it when it is called; Bazel allows no cycles.
LAZY = {("elmo_tf/models", "//elmo_tf/checkpoints")}


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_of_a_package_are_its_imports(package):
    rule = library(package)
    mapped = {"//elmo_tf:mapped_packages"} if not package.startswith("elmo_tf/") else set()
    files = sorted((ROOT / package).rglob("*.py"))
    labels = {label(name) for file in files for name in imported_names(file)} - {None}
    needed = {one for one in labels if (package, one) not in LAZY} - {f"//{package}"} | mapped

    assert rule["name"] == package.rpartition("/")[2]
    assert set(rule["deps"]) == needed


def test_the_library_target_depends_on_all_packages():
    rule = next(one for one in rules(ROOT / "elmo_tf" / "BUILD") if one.get("name") == "elmo_tf")

    libraries = {f"//{package}" for package in PACKAGES} - {"//elmo_tf/commands"}
    assert set(rule["deps"]) == libraries | {":base"}


def test_third_party_packages_are_in_the_lock_file_and_workspace():
    files = [ROOT / folder / "BUILD" for folder in (*PACKAGES, "elmo_tf", "tests")]
    deps = {dep for file in files for rule in rules(file) for dep in rule.get("deps", [])}
    used = {dep.removeprefix("@pypi//") for dep in deps if dep.startswith("@pypi//")}
    lock = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8").splitlines()
    locked = {line.partition("==")[0].lower().replace("-", "_") for line in lock}
    installed = next(rule for rule in rules(ROOT / "WORKSPACE") if rule.get("name") == "pypi")

    assert used <= locked
    assert used <= set(installed["packages"])


def rules(file):
    """The rules of a Bazel file: their keyword arguments, where they are literals."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    calls = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    return [
        {word.arg: _literal(word.value) for word in call.keywords}
        for call in calls
        if isinstance(call, ast.Call)
    ]


def _literal(node):
    try:
        return ast.literal_eval(node)
    except ValueError:  # a glob
        return None


def library(package):
    return next(rule for rule in rules(ROOT / package / "BUILD") if "deps" in rule)


def imported_names(file):
    """The names that a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=parent, names=names):
                yield from (f"{parent}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name("require_extra"), args=[ast.Constant(value=name), *_]):
                yield name


def label(name):
    """The target that `import name` needs; None for the standard library."""
    root, *rest = name.split(".")
    if root in sys.stdlib_module_names:
        return None
    if root != "elmo_tf":
        return f"@pypi//{DISTRIBUTIONS.get(root, root)}"
    if rest and rest[0] in ("trainers", "saved_models"):
        return f"//{rest[0]}"
    if rest and f"elmo_tf/{rest[0]}" in PACKAGES:
        return f"//elmo_tf/{rest[0]}"
    return "//elmo_tf:base"
