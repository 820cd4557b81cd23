import json
import shutil

import numpy as np
import pytest

from elmo_tf import BiLMConfig, Vocabulary, load_bilm, save_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.checkpoints.published import save_language_model
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.trainers import PretrainConfig, pretrain
from nested_arrays import assert_close
from reference.checkpoint import read_hdf5

pytestmark = pytest.mark.usefixtures("simple_losses")


@pytest.fixture
def unchanged(settings, text, tmp_path):
    """Settings of a run whose single step does not change the weights.

    The vocabulary has the tokens in another order, with one added and one removed.
    """
    tokens = [*Vocabulary.load(text / "vocab.txt").tokens[3:], "old"]
    tokens.remove("dog")
    Vocabulary(["<S>", "</S>", "<UNK>", *reversed(tokens)]).save(tmp_path / "other.txt")
    changes = {"options": None, "steps": 1, "learning_rate": 1e-30}
    return {**settings, **changes, "vocab": tmp_path / "other.txt"}


def rows_by_token(model):
    rows = np.column_stack([model.softmax.kernel.numpy(), model.softmax.bias.numpy()])
    return dict(zip(model.vocabulary.tokens, rows, strict=True))


def assert_same_bilm(workdir, other):
    assert_close(*(read_hdf5(folder / "weights.hdf5") for folder in (workdir, other)))


def test_tokens_in_both_vocabularies_keep_their_softmax_rows(run, unchanged, tmp_path):
    """The checkpoint has an initial state, and its options have another vocabulary size."""
    source = shutil.copytree(run.workdir, tmp_path / "source")
    bilm = load_bilm(source)
    bilm.warm_start(["the cat"])
    save_bilm(bilm, source)
    options = json.loads((source / "options.json").read_text())
    (source / "options.json").write_text(json.dumps({**options, "n_tokens_vocab": 793471}))
    workdir = tmp_path / "tuned"
    pretrain(PretrainConfig(**unchanged, start_from=source, workdir=workdir))

    before, after = load_language_model(run.workdir), load_language_model(workdir)
    old, new = rows_by_token(before), rows_by_token(after)
    for token in old.keys() & new.keys():
        np.testing.assert_array_equal(new[token], old[token], err_msg=token)
    assert new.keys() - old.keys() == {"old"}
    assert new["old"].any()  # random, not zeros
    assert_same_bilm(workdir, run.workdir)
    options = json.loads((workdir / "options.json").read_text())
    assert options["n_tokens_vocab"] == len(new)
    # Fine-tuning resets the state of `warm_start`.
    assert load_bilm(source).initial_state.numpy().any()
    assert not after.bilm.initial_state.numpy().any()
    # The run resumes without the starting checkpoint.
    pretrain(PretrainConfig(workdir=workdir, steps=2, start_from=tmp_path / "removed", resume=True))
    assert_same_bilm(workdir, run.workdir)


def test_tokens_in_both_vocabularies_keep_their_embeddings(tmp_path, settings, unchanged, caplog):
    vocabulary = Vocabulary.load(settings["vocab"])
    lstm = BiLMConfig.from_options(settings["options"]).lstm
    config = BiLMConfig(None, lstm, num_tokens=len(vocabulary))
    before = LanguageModel.create(config, vocabulary, num_sampled=6)
    save_language_model(before, tmp_path / "first")
    caplog.set_level("INFO", logger="absl")
    pretrain(PretrainConfig(**unchanged, start_from=tmp_path / "first", workdir=tmp_path / "run"))
    after = load_language_model(tmp_path / "run")
    shared = sorted(set(before.vocabulary.tokens) & set(after.vocabulary.tokens))
    counts = f"{len(shared)} of {len(shared) + 1}"  # all but "old"
    assert f"{counts} tokens keep their softmax rows of {tmp_path / 'first'}" in caplog.text
    np.testing.assert_allclose(
        after.bilm.token_embeddings(shared), before.bilm.token_embeddings(shared), atol=1e-7
    )
    for name in ("softmax.hdf5", "vocab.txt"):
        (tmp_path / "first" / name).unlink()
    with pytest.raises(FileNotFoundError, match=r"first has no vocab\.txt"):
        pretrain(PretrainConfig(**unchanged, start_from=tmp_path / "first", workdir=tmp_path / "x"))


def test_only_the_bilm_is_loaded_from_a_checkpoint_without_a_softmax(
    tmp_path, options, unchanged, bilm, caplog
):
    """Options of the same shape are allowed."""
    save_bilm(bilm, tmp_path / "published")
    changes = {"start_from": tmp_path / "published", "options": options}
    pretrain(PretrainConfig(**{**unchanged, **changes}, workdir=tmp_path / "tuned"))
    assert "has no softmax weights: the softmax is randomly initialized" in caplog.text
    assert_same_bilm(tmp_path / "tuned", tmp_path / "published")


def test_options_must_have_the_shape_of_the_starting_checkpoint(tmp_path, unchanged, run):
    options = json.loads((run.workdir / "options.json").read_text())
    options["lstm"]["dim"] = 17
    changes = {"start_from": run.workdir, "options": options, "workdir": tmp_path / "other"}
    with pytest.raises(ValueError, match="another shape than the preset or options"):
        pretrain(PretrainConfig(**{**unchanged, **changes}))
    assert not (tmp_path / "other").exists()
