"""The wheel of `pip wheel .`: one package, which runs the demo in another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = {
    "elmo_tf": "elmo_tf",
    "trainers": "elmo_tf/trainers",
    "saved_models": "elmo_tf/saved_models",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of the tree, so that no files are left in the tree."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in FOLDERS:
        for file in files_of(folder):
            copy = tree / file.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        (tree / name).write_bytes((REPOSITORY / name).read_bytes())
    wheels = tmp_path_factory.mktemp("wheels")
    pip("wheel", tree, "--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    (path,) = wheels.iterdir()
    return path


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, arguments)], check=True)


def files_of(folder):
    return [
        file
        for file in (REPOSITORY / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]


def test_the_wheel_contains_one_package_with_all_files(wheel):
    assert wheel.stat().st_size < 60_000_000
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"elmo_tf"}
    files = {
        f"{home}/{file.relative_to(REPOSITORY / folder).as_posix()}"
        for folder, home in FOLDERS.items()
        for file in files_of(folder)
    }
    assert {name for name in names if name.startswith("elmo_tf/")} == files
    assert "elmo_tf/py.typed" in files
    (license_file,) = (name for name in names if name.endswith("LICENSE"))
    assert ".dist-info/" in license_file


def test_the_installed_wheel_runs_the_demo_in_another_folder(wheel, tmp_path):
    site = tmp_path / "site"
    pip("install", "--no-deps", "--target", site, wheel)
    demo = tmp_path / "demo.py"
    demo.write_bytes((REPOSITORY / "examples" / "demo.py").read_bytes())

    def output_of(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(site)}
        options = {"cwd": tmp_path, "env": environment, "text": True}
        return subprocess.check_output([sys.executable, *arguments], **options)

    place = output_of("-c", "import elmo_tf.trainers; print(elmo_tf.trainers.__file__)")
    assert Path(place.strip()).is_relative_to(site)
    assert "All steps succeeded" in output_of(demo, "--steps", "60")
    assert (tmp_path / "demo" / "exported" / "1" / "saved_model.pb").is_file()
