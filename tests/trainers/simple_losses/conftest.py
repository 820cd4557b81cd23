"""Runs with simple losses, which trace quickly, for tests of everything else in a run.

`test_exact_resume.py` and `test_pretraining.py` use the losses of the language model.
"""

import pytest

from runs import run_of


@pytest.fixture(scope="module", autouse=True)
def simple_losses(replace_losses):
    with replace_losses():
        yield


@pytest.fixture(scope="session")
def settings(settings):
    """Settings without held-out text, whose perplexity takes time to trace."""
    return {**settings, "valid": (), "ema": 0.9}


@pytest.fixture(scope="session")
def run(tmp_path_factory, settings, replace_losses):
    folder = tmp_path_factory.mktemp("simple_runs")
    with replace_losses():
        return run_of(settings, folder / "whole", folder / "killed")
