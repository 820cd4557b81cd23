"""Training models of the kind of ELMoForManyLangs from scratch."""

import shutil

import numpy as np
import pytest

from elmo_tf import BiLMConfig, Lexicon, Vocabulary, load_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.text.corpus import read_sentences
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import assert_same_run, run_of

pytestmark = pytest.mark.usefixtures("simple_losses")

# As in the options of a converted checkpoint, with the sizes of its dictionaries.
SIZES = {"words": (777, 555, 3), "characters": (777, 0, 0)}


def lexicon_settings(settings, kind):
    options = settings["options"]
    sizes = dict(zip(("n_characters", "n_words", "word_dim"), SIZES[kind], strict=True))
    char_cnn = {k: v for k, v in options["char_cnn"].items() if k != "n_characters"}
    options = {**options, "char_cnn": {**char_cnn, "lexicon": sizes}}
    return {**settings, "options": options, "steps": 4, "save_every": 2}


@pytest.fixture(scope="module", params=SIZES)
def case(request, settings, tmp_path_factory, replace_losses):
    """A run, and whether its lexicon has words."""
    folder = tmp_path_factory.mktemp(request.param)
    with replace_losses():
        settings = lexicon_settings(settings, request.param)
        run = run_of(settings, folder / "run", {4: folder / "killed"})
    return run, request.param == "words"


def test_the_dictionaries_are_built_from_text_and_vocabulary(case, text):
    run, has_words = case
    lexicon = Lexicon.load(run.workdir, has_words)
    tokens = {token for one in read_sentences(text.glob("train_*.txt")) for token in one}
    assert {one for one in lexicon.entries if len(one) == 1} == set("".join(tokens))
    if has_words:
        assert lexicon.words[4:] == Vocabulary.load(text / "vocab.txt").tokens[3:]
    config = BiLMConfig.from_options(run.workdir / "options.json")
    assert config.char_cnn.lexicon.num_characters == len(lexicon.entries)
    assert (run.workdir / "word.dic").exists() is has_words
    known, unknown = load_bilm(run.workdir)(["the cat", "the ?"])["layers"][:, 0, 1]
    assert not np.allclose(known, unknown)
    assert load_language_model(run.workdir).bilm.lexicon.get_config() == lexicon.get_config()


def test_a_run_with_a_lexicon_resumes_exactly(case, tmp_path):
    run, _ = case
    workdir = shutil.copytree(run.copies[4], tmp_path / "killed")
    pretrain(PretrainConfig(workdir=workdir, resume=True))
    assert_same_run(workdir, run)


def test_dictionaries_in_the_work_directory_are_used_but_not_with_overwrite(
    settings, text, tmp_path
):
    settings = {**lexicon_settings(settings, "words"), "steps": 1, "workdir": tmp_path}
    Lexicon.build(["a", "z"], ["a", "zz"], 50).save(tmp_path)
    before = Lexicon.load(tmp_path).get_config()
    shutil.copy(text / "vocab.txt", tmp_path)
    pretrain(PretrainConfig(**settings))
    assert Lexicon.load(tmp_path).get_config() == before
    pretrain(PretrainConfig(**settings, overwrite=True))
    assert Lexicon.load(tmp_path).get_config() != before
