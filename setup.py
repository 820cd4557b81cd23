"""Maps the folders at the top of the repository into the one package `elmo_tf`.

`trainers/` and `saved_models/` stand beside `elmo_tf/`, but are installed and imported as
`elmo_tf.trainers` and `elmo_tf.saved_models`, so that no general name is taken in site-packages.
Everything else about the project is in `pyproject.toml`.
"""

from setuptools import find_namespace_packages, setup

MAPPED = {"elmo_tf.trainers": "trainers", "elmo_tf.saved_models": "saved_models"}

# Folders of data count as packages too.
packages = find_namespace_packages(include=["elmo_tf", "elmo_tf.*"])
for package, folder in MAPPED.items():
    packages += [package, *(f"{package}.{name}" for name in find_namespace_packages(folder))]

setup(
    packages=packages,
    package_dir={"elmo_tf": "elmo_tf", **MAPPED},
    package_data={
        "elmo_tf": ["py.typed"],
        "elmo_tf.saved_models.small_en": ["*"],
        "elmo_tf.saved_models.small_ko": ["*"],
        "elmo_tf.saved_models.server.page": ["*"],
    },
)
