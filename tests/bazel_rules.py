"""What BUILD says, and what the modules and their imports want it to say."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAPPED = ("saved_models", "trainers")  # imported as elmo_tf.saved_models and elmo_tf.trainers
# Packages that are imported by another name than they are installed by.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "absl": "absl_py",
    "faiss": "faiss_cpu",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio_health_checking",
    "grpc_reflection": "grpcio_reflection",
    "sklearn": "scikit_learn",
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
                raise ValueError(f"{file}, line {node.lineno}: relative imports cannot be read")
            case ast.Call(func=ast.Name("require_extra"), args=[ast.Constant(value=name), *_]) if (
                not file.startswith("tests/")
            ):
                yield name
            case ast.Constant(value=str(text)) if file.endswith("/__init__.py"):
                yield from {text, f"{module_name(file)}.{text}"} & FILE_OF.keys()


def label(name, target_of):
    """The target that `import name` needs, None for the standard library."""
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names:
        return None
    while name not in FILE_OF and "." in name:
        name = name.rpartition(".")[0]
    if name in FILE_OF:
        return target_of.get(FILE_OF[name], f"the missing target of {FILE_OF[name]}")
    return f"@pypi//{DISTRIBUTIONS.get(root, root)}"


def needed(rule, target_of=TARGET_OF):
    """The labels that `rule` has to depend on, with the target of each file."""
    files = [file for file in rule["srcs"] if file not in GENERATED and not file.startswith(":")]
    labels = {label(name, target_of) for file in files for name in imported_names(file)}
    if rule["kind"] == "py_test":
        conftests = (f"{folder}/conftest.py" for folder in Path(files[0]).parents)
        labels |= {"@pypi//pytest"} | {target_of[file] for file in conftests if file in target_of}
    if any(file.startswith(MAPPED) for file in files):
        labels.add(":mapped_packages")
    return labels - {None, f":{rule['name']}"}
