"""What WORKSPACE needs, without a network: the rules that an old Bazel has built in, and the packages that its Python has."""

def _built_in_rules(context):
    context.file("python/BUILD")
    context.file("python/defs.bzl", "py_binary = native.py_binary\npy_library = native.py_library\npy_test = native.py_test\n")

built_in_rules = repository_rule(
    implementation = _built_in_rules,
    doc = "Makes the built-in Python rules available under the address of rules_python's.",
)

def _installed_packages(context):
    for package in context.attr.packages:
        context.file(
            package + "/BUILD",
            "py_library(name = \"{}\", visibility = [\"//visibility:public\"])\n".format(package),
        )

installed_packages = repository_rule(
    implementation = _installed_packages,
    doc = "An empty library for each package, which the `python3` on the path has to have installed.",
    attrs = {"packages": attr.string_list(doc = "Names as in `@pypi//name`.", mandatory = True)},
)
