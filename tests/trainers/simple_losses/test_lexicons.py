"""Training models of the kind of ELMoForManyLangs from scratch."""

import json

import numpy as np
import pytest

from elmo_tf import BiLMConfig, Lexicon, Vocabulary, load_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.text.corpus import read_sentences
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import assert_same_run, run_of

# As in the options of a converted checkpoint, with the sizes of its dictionaries.
SIZES = {"words": (777, 555, 3), "characters": (777, 0, 0)}


def lexicon_settings(settings, bilm_options, kind):
    names = ("n_characters", "n_words", "word_dim")
    sizes = dict(zip(names, SIZES[kind], strict=True))
    char_cnn = {k: v for k, v in bilm_options["char_cnn"].items() if k != "n_characters"}
    options = {**bilm_options, "char_cnn": {**char_cnn, "lexicon": sizes}}
    return {**settings, "options": options, "steps": 4, "save_every": 2}


@pytest.fixture(params=SIZES)
def case(request, settings, bilm_options):
    return lexicon_settings(settings, bilm_options, request.param), request.param == "words"


def test_the_dictionaries_are_built_from_text_and_vocabulary(case, text, tmp_path):
    settings, has_words = case

    pretrain(PretrainConfig(**settings, workdir=tmp_path / "run"))

    lexicon = Lexicon.load(tmp_path / "run", has_words)
    tokens = {token for one in read_sentences(text.glob("train_*.txt")) for token in one}
    assert {one for one in lexicon.entries if len(one) == 1} == set("".join(tokens))
    if has_words:
        assert lexicon.words[4:] == Vocabulary.load(text / "vocab.txt").tokens[3:]
    config = BiLMConfig.from_options(tmp_path / "run" / "options.json")
    assert config.char_cnn.lexicon.num_characters == len(lexicon.entries)
    assert (tmp_path / "run" / "word.dic").exists() is has_words
    known, unknown = load_bilm(tmp_path / "run")(["the cat", "the ?"])["layers"][:, 0, 1]
    assert not np.allclose(known, unknown)
    assert load_language_model(tmp_path / "run").bilm.lexicon.digest() == lexicon.digest()


def test_a_run_with_a_lexicon_resumes_exactly(case, tmp_path):
    settings, _ = case
    whole = run_of(settings, tmp_path / "whole")
    pretrain(PretrainConfig(**{**settings, "steps": 2}, workdir=tmp_path / "run"))

    pretrain(PretrainConfig(**settings, workdir=tmp_path / "run", resume=True))
    assert_same_run(tmp_path / "run", whole)
    pretrain(PretrainConfig.resumed(tmp_path / "run", steps=5))


def test_dictionaries_in_the_work_directory_are_used(settings, bilm_options, text, tmp_path):
    settings = lexicon_settings(settings, bilm_options, "words")
    Lexicon.build([["a", "z"]], ["a", "zz"], 50).save(tmp_path / "run")
    before = Lexicon.load(tmp_path / "run").digest()
    Vocabulary.load(text / "vocab.txt").save(tmp_path / "run" / "vocab.txt")

    pretrain(PretrainConfig(**settings, workdir=tmp_path / "run"))

    assert Lexicon.load(tmp_path / "run").digest() == before
    pretrain(PretrainConfig(**settings, workdir=tmp_path / "run", overwrite=True))
    assert Lexicon.load(tmp_path / "run").digest() != before
    settings["options"] = bilm_options
    (tmp_path / "bytes").mkdir()
    (tmp_path / "bytes" / "char.dic").touch()
    with pytest.raises(FileExistsError, match=r"bytes is not empty.*: it holds char\.dic"):
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "bytes"))


def test_the_command_trains_with_the_options_of_a_converted_model(
    command, settings, bilm_options, text, tmp_path
):
    settings = lexicon_settings(settings, bilm_options, "words")
    (tmp_path / "options.json").write_text(json.dumps(settings["options"]))

    status, _, err = command(
        *("train", "--corpus", text / "train_*.txt", "--vocab", text / "vocab.txt"),
        *("--workdir", tmp_path / "run", "--options", tmp_path / "options.json"),
        *("--steps", 1, "--batch-size", 2, "--unroll", 5, "--num-sampled", 6),
    )

    assert status == 0, err
    assert (tmp_path / "run" / "word.dic").is_file()
