"""Brings BUILD up to date with the modules and their imports: `python tests/write_build.py`.

A rule that is there keeps what it says beside its dependencies; files without one get one, and
rules without files go. What stands above the first section of BUILD stays as it is.
"""

from bazel_rules import FILE_OF, LIBRARIES, ROOT, TEST_FILES, TESTS, needed

_SECTIONS = (
    ("The library, a target per module", "elmo_tf"),
    ("trainers/ is imported as elmo_tf.trainers", "trainers"),
    ("saved_models/ is imported as elmo_tf.saved_models", "saved_models"),
    ("Examples", "examples"),
    ("What the tests share", "tests"),
)
_TESTS_SECTION = "The tests, a target per file"
_MAIN = "tests/pytest_main.py"
# In the order in which Bazel's own formatter wants them.
_KEYWORDS = (
    "name",
    "size",
    "testonly",
    "srcs",
    "args",
    "data",
    "imports",
    "main",
    "tags",
    "deps",
)


def main():
    path = ROOT / "BUILD"
    head = path.read_text(encoding="utf-8").partition(f"# {_SECTIONS[0][0]}\n")[0]
    libraries = _libraries()
    target_of = {file: f":{rule['name']}" for rule in libraries for file in rule["srcs"]}
    parts = [head.rstrip("\n")]
    for title, folder in _SECTIONS:
        parts.append(f"# {title}")
        parts.extend(
            _text(rule, target_of) for rule in libraries if rule["name"].partition("/")[0] == folder
        )
    parts.append(f"# {_TESTS_SECTION}")
    parts.extend(_text(rule, target_of) for rule in _tests())
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _libraries():
    known = {file: rule for rule in LIBRARIES for file in rule["srcs"] if len(rule["srcs"]) == 1}
    rules = {}
    for file in sorted(set(FILE_OF.values())):
        name = file.removesuffix(".py").removesuffix("/__init__")
        rules[name] = known.get(file) or {"kind": "py_library", "name": name, "srcs": [file]}
        if file not in known and file.startswith("tests/"):
            rules[name] |= {"testonly": True, "imports": ["tests"]}
    return _in_order(rules)


def _tests():
    known = {rule["name"]: rule for rule in TESTS}
    rules = {}
    for file in sorted(TEST_FILES):
        name = file.removesuffix(".py")
        rules[name] = known.get(name) or {
            "kind": "py_test",
            "name": name,
            "srcs": [_MAIN, file],
            "args": [file],
            "data": ["pyproject.toml"],
            "main": _MAIN,
        }
    return _in_order(rules)


def _in_order(rules):
    return [rule for _, rule in sorted(rules.items(), key=lambda item: item[0].split("/"))]


def _label_order(label):
    # Those of this package first.
    return label.startswith("@"), label.replace("/", "\0")


def _text(rule, target_of):
    rule = {**rule, "deps": sorted(needed(rule, target_of), key=_label_order)}
    lines = [f"{rule['kind']}("]
    for keyword in _KEYWORDS:
        value = rule.get(keyword)
        if value in (None, []):
            continue
        if isinstance(value, list) and len(value) > 1:
            lines += [f"    {keyword} = [", *(f'        "{word}",' for word in value), "    ],"]
        elif isinstance(value, list):
            lines.append(f'    {keyword} = ["{value[0]}"],')
        else:
            text = f'"{value}"' if isinstance(value, str) else value
            lines.append(f"    {keyword} = {text},")
    return "\n".join([*lines, ")"])


if __name__ == "__main__":
    main()
