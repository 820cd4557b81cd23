import json
import shutil

import numpy as np
import pytest

from elmo_tf import Vocabulary, load_bilm, save_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.trainers import PretrainConfig, pretrain
from reference.checkpoint import read_hdf5
from runs import assert_same_run, run_of


@pytest.fixture(scope="module")
def other_vocabulary(text, tmp_path_factory):
    """The tokens in another order, with one added and one removed."""
    tokens = [*Vocabulary.load(text / "vocab.txt").tokens[3:], "old"]
    tokens.remove("dog")
    path = tmp_path_factory.mktemp("vocabulary") / "other.txt"
    Vocabulary(["<S>", "</S>", "<UNK>", *reversed(tokens)]).save(path)
    return path


def unchanged(settings, **changes):
    """Settings of a run whose single step does not change the weights."""
    del_options = {name: value for name, value in settings.items() if name != "options"}
    return {**del_options, "steps": 1, "learning_rate": 1e-30, "valid": (), **changes}


def rows_by_token(model):
    kernel, bias = model.softmax.kernel.numpy(), model.softmax.bias.numpy()
    return {token: (kernel[i], bias[i]) for i, token in enumerate(model.vocabulary.tokens)}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, settings, run, other_vocabulary, replace_losses):
    """The work directory of a run that starts from a checkpoint, and the checkpoint's directory.

    The checkpoint has an initial state, and its options have another vocabulary size.
    """
    folder = tmp_path_factory.mktemp("tuned")
    source = shutil.copytree(run.workdir, folder / "source")
    bilm = load_bilm(source)
    bilm.warm_start(["the cat"])
    save_bilm(bilm, source)
    options = json.loads((source / "options.json").read_text())
    (source / "options.json").write_text(json.dumps({**options, "n_tokens_vocab": 793471}))
    settings = unchanged(settings, vocab=other_vocabulary, start_from=source)
    with replace_losses():
        pretrain(PretrainConfig(**settings, workdir=folder / "tuned"))
    return folder / "tuned", source


def test_tokens_in_both_vocabularies_keep_their_softmax_rows(run, tuned):
    before = load_language_model(run.workdir)
    after = load_language_model(tuned[0])
    old, new = rows_by_token(before), rows_by_token(after)
    for token in old.keys() & new.keys():
        np.testing.assert_array_equal(new[token][0], old[token][0], err_msg=token)
        np.testing.assert_array_equal(new[token][1], old[token][1], err_msg=token)
    assert new.keys() - old.keys() == {"old"}
    assert new["old"][0].any()  # random, not zeros
    for one, other in zip(before.bilm.weights, after.bilm.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    options = json.loads((tuned[0] / "options.json").read_text())
    assert options["n_tokens_vocab"] == len(new)


def test_a_work_directory_must_not_have_the_name_of_the_starting_model(
    tmp_path, monkeypatch, settings
):
    monkeypatch.chdir(tmp_path)
    for workdir in ("small-en", tmp_path / "small-en"):
        changed = unchanged(settings, start_from="small-en", workdir=str(workdir))
        with pytest.raises(ValueError, match=r"`workdir` must not be 'small-en' here: .*hides"):
            pretrain(PretrainConfig(**changed))
    assert not (tmp_path / "small-en").exists()


def test_fine_tuning_resets_the_warm_start_state(tuned):
    workdir, source = tuned

    assert load_bilm(source).initial_state.numpy().any()
    assert not load_bilm(workdir).initial_state.numpy().any()


def test_tokens_in_both_vocabularies_keep_their_embeddings(
    tmp_path, settings, other_vocabulary, replace_losses
):
    first = {**settings, "word_input": True, "steps": 3, "valid": ()}
    settings = unchanged(settings, vocab=other_vocabulary, start_from=tmp_path / "first")
    with replace_losses():
        pretrain(PretrainConfig(**first, workdir=tmp_path / "first"))
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "tuned"))
    before, after = (load_language_model(tmp_path / name) for name in ("first", "tuned"))
    shared = sorted(set(before.vocabulary.tokens) & set(after.vocabulary.tokens))
    np.testing.assert_allclose(
        after.bilm.token_embeddings(shared), before.bilm.token_embeddings(shared), atol=1e-7
    )


def test_only_the_bilm_is_loaded_from_a_checkpoint_without_a_softmax(
    tmp_path, settings, bilm, caplog, replace_losses
):
    save_bilm(bilm, tmp_path / "published")
    settings = unchanged(settings, start_from=tmp_path / "published")
    with replace_losses():
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "tuned"))
    assert "has no softmax weights: the softmax is randomly initialized" in caplog.text
    before, after = (read_hdf5(tmp_path / name / "weights.hdf5") for name in ("published", "tuned"))
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def test_a_resumed_run_does_not_need_the_starting_checkpoint(
    tmp_path, settings, run, replace_losses
):
    """Its options repeat the shape of the checkpoint, which is allowed."""
    source = shutil.copytree(run.workdir, tmp_path / "source")
    settings = {**settings, "start_from": source, "valid": ()}
    with replace_losses():
        whole = run_of(settings, tmp_path / "whole", tmp_path / "killed")
        shutil.rmtree(source)  # a run that has started does not need it
        pretrain(PretrainConfig(**settings, workdir=whole.killed, resume=True))
    assert_same_run(whole.killed, whole)


def test_options_must_have_the_shape_of_the_starting_checkpoint(tmp_path, settings, run):
    """The previous test has options of the same shape."""
    settings = {**settings, "start_from": run.workdir, "steps": 1, "valid": ()}
    other = {**settings["options"], "lstm": {**settings["options"]["lstm"], "dim": 17}}
    with pytest.raises(
        ValueError, match=r"has another shape than .* options: `lstm\.dim` is 13, not 17\."
    ):
        pretrain(PretrainConfig(**{**settings, "options": other}, workdir=tmp_path / "other"))
    assert not (tmp_path / "other").exists()
