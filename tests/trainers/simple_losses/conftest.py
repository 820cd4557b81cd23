"""Runs with simple losses, which are quickly traced, for tests of all else that a run does.

`test_exact_resume.py` and `test_pretraining.py` have the losses of the language model.
"""

import pytest

from runs import run_of


@pytest.fixture(scope="module", autouse=True)
def simple_losses(replace_losses):
    with replace_losses():
        yield


@pytest.fixture(scope="session")
def settings(settings):
    """Without held-out text, whose perplexity would have to be traced too."""
    return {**settings, "valid": ()}


@pytest.fixture(scope="session")
def run(tmp_path_factory, settings, replace_losses):
    folder = tmp_path_factory.mktemp("simple_runs")
    with replace_losses():
        return run_of(settings, folder / "whole", folder / "killed")
