"""Options of exports: several mixes, bfloat16, raw text; files beside a model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLMConfig, Vocabulary, char_ids
from elmo_tf.checkpoints.published import save_bilm
from elmo_tf.saved_models import PunctuationSplitter, export
from elmo_tf.saved_models.exporting.export import read_warmup
from reference import scalar_mix as reference

SENTENCES = ["the cat sat on it", "", "한국어 x"]
MIXES = ([0.4, -1.1, 0.9], 1.7), ([2.0, 0.0, -0.5], 0.6)  # of the fixture `elmo_of_two_mixes`
TEXT = ["Don't stop, 서울!", "", "a\N{NO-BREAK SPACE}b €5"]
TOKENS = [["Don", "'", "t", "stop", ",", "서울", "!"], [], ["a", "b", "€", "5"]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, elmo_of_two_mixes):
    """Two mixes, exported with a signature for raw text."""
    return export(
        elmo_of_two_mixes,
        tmp_path_factory.mktemp("several"),
        tokenizer=PunctuationSplitter(),
        check=False,
    )


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(exported)


@pytest.fixture(scope="module")
def mixes(bilm):
    """The expected vectors of each mix, from the biLM's layers and the formula of the mix."""
    layers = bilm(SENTENCES)["layers"].numpy()
    return [reference.scalar_mix(layers, *mix) for mix in MIXES]


@pytest.mark.parametrize("index", [0, 1])
def test_each_mix_has_its_own_outputs(loaded, mixes, index):
    outputs = loaded.signatures["serving_default"](tf.constant(SENTENCES))

    elmo, default = (outputs[f"{name}_1" if index else name] for name in ("elmo", "default"))
    np.testing.assert_allclose(elmo, mixes[index], atol=1e-5)
    counts = np.array([5, 1, 2])[:, np.newaxis]
    np.testing.assert_allclose(default, mixes[index].sum(axis=1) / counts, atol=1e-5)
    penalty = loaded.regularization_losses[index]().numpy()
    assert penalty == pytest.approx(0.3 * np.sum(np.square(MIXES[index][0])))


@pytest.mark.parametrize(("num_chars", "num_sentences"), [(9, 1), (14, 3)])
def test_the_number_of_characters_does_not_change_the_vectors(
    loaded, mixes, num_chars, num_sentences
):
    rows = [sentence.split() for sentence in SENTENCES[:num_sentences]]
    tokens = tf.ragged.constant(rows, dtype=tf.string).to_tensor("")
    ids = char_ids(tokens, 14)[..., :num_chars]  # the longest of all tokens takes 11 bytes

    outputs = loaded.signatures["char_ids"](tf.cast(ids, tf.int32))

    np.testing.assert_allclose(outputs["elmo"], mixes[0][:num_sentences], atol=1e-5)


def test_raw_text_is_split_into_words_and_punctuation(loaded, bilm):
    outputs = loaded.signatures["text"](tf.constant(TEXT))

    layers = bilm(TOKENS)["layers"].numpy()
    np.testing.assert_allclose(outputs["elmo"], reference.scalar_mix(layers, *MIXES[0]), atol=1e-5)
    for text, row, tokens, starts, ends in zip(
        TEXT, TOKENS, *(outputs[name].numpy() for name in ("tokens", "starts", "ends")), strict=True
    ):
        assert [token.decode() for token in tokens[: len(row)]] == row
        assert set(tokens[len(row) :]) <= {b""}
        text = text.encode()
        cut = [text[a:b].decode() for a, b in zip(starts, ends, strict=True)][: len(row)]
        assert cut == row

    blank = loaded.signatures["text"](tf.constant([" "]))
    assert {blank[name].shape[1] for name in ("elmo", "tokens", "starts", "ends")} == {1}


@pytest.mark.more
def test_a_new_process_loads_operations_of_tensorflow_text(exported):
    code = "import sys; from elmo_tf.saved_models import load; load(sys.argv[1]); print('loaded')"
    command = [sys.executable, "-c", code, exported]

    assert subprocess.check_output(command, text=True, timeout=120).strip() == "loaded"


@pytest.mark.more
def test_bfloat16_and_a_warm_start_are_exported(tmp_path, fresh_bilm):
    bilm = fresh_bilm()
    bilm.warm_start(SENTENCES)
    exact = bilm(SENTENCES)["layers"].numpy().mean(axis=1)

    path = export(bilm, tmp_path, precision="bfloat16")

    outputs = tf.saved_model.load(path)(tf.constant(SENTENCES))
    assert outputs["elmo"].dtype == tf.float32
    error = np.linalg.norm(outputs["elmo"] - exact)
    assert 1e-5 < error / np.linalg.norm(exact) < 0.02
    assert bilm.compute_dtype == "float32"


def test_the_command_exports_the_vocabulary_of_the_checkpoint(
    tmp_path, bilm, stdout_of, unverified_exports
):
    save_bilm(bilm, tmp_path / "run")
    Vocabulary.build(SENTENCES).save(tmp_path / "run" / "vocab.txt")
    (tmp_path / "text.txt").write_text("\nthe cat\n \non it\n")
    call = "export", tmp_path / "run", tmp_path / "out", "--raw-text", "--warmup"

    path = Path(stdout_of(*call, tmp_path / "text.txt").strip())

    assert path == tmp_path / "out" / "1"
    options = json.loads((path / "assets" / "options.json").read_text())
    assert BiLMConfig.from_options(options) == bilm.config
    assert Vocabulary.load(path / "assets" / "vocab.txt") == Vocabulary.build(SENTENCES)
    assert "text" in tf.saved_model.load(os.fspath(path)).signatures
    _, of_tokens, *_ = read_warmup(path)
    assert list(tf.make_ndarray(of_tokens.inputs["tokens"])[0]) == [b"the", b"cat"]
