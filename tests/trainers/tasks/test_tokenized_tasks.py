"""Task models that read raw text with the tokenizer of their biLM, from training to the server."""

import csv
import itertools
import json
import shutil

import numpy as np
import pytest

from elmo_tf import Elmo, load_bilm
from elmo_tf.saved_models import Client, serve
from elmo_tf.tasks import BiLSTMClassifier, CRFTagger, load_task
from elmo_tf.text.tokenizers import LanguageTokenizer, align, token_sentences
from task_files import SMALL

pytest.importorskip("kiwipiepy")
pytestmark = pytest.mark.usefixtures("eager_functions", "unverified_exports")
REVIEWS = [
    "정말 재미있는 영화였다!",
    "지루해서 끝까지 못 봤다.\n돈이 아깝다.",
    "연기가 훌륭하다",
    "별로다",
]
LABELS = ["좋음", "나쁨", "좋음", "나쁨"]
CLASSIFIER = ("--task", "classify", "--model", "bilstm", "--no-characters")
TAGGED = "학교에 NOUN\n갔다 VERB\n. PUNCT\n\n배가 NOUN\n왔다. VERB\n"


@pytest.fixture(scope="module")
def korean(checkpoint_directory, tmp_path_factory):
    """A small checkpoint that names the tokenizer of morphemes."""
    folder = tmp_path_factory.mktemp("korean") / "model"
    shutil.copytree(checkpoint_directory, folder)
    options = json.loads((folder / "options.json").read_text())
    (folder / "options.json").write_text(json.dumps({**options, "tokenizer": "ko-morph"}))
    return folder


def morphemes(text):
    return list(itertools.chain(*token_sentences([text], LanguageTokenizer("ko-morph"))))


def write_table(path, texts):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *zip(LABELS, texts, strict=True)])


def train(stdout_of, file, workdir, elmo, *options):
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    files = "--train", file, "--dev", file, "--workdir", workdir, "--elmo", elmo, "--epochs", "2"
    return json.loads(stdout_of("task", "train", *options, *files, *settings))["dev"]


def test_raw_reviews_have_the_labels_of_their_tokens_everywhere(korean, tmp_path, stdout_of):
    raw, tokens, text = tmp_path / "raw.csv", tmp_path / "tokens.csv", tmp_path / "raw.txt"
    write_table(raw, REVIEWS)
    write_table(tokens, [" ".join(morphemes(review)) for review in REVIEWS])
    lines = [" ".join(review.split()) for review in REVIEWS]
    text.write_text("\n".join(lines))
    by_hand = train(stdout_of, tokens, tmp_path / "by_hand", korean, *CLASSIFIER)
    workdir = tmp_path / "run"

    scores = train(stdout_of, raw, workdir, korean, *CLASSIFIER, "--tokenize")

    assert scores == by_hand
    assert json.loads((workdir / "task.json").read_text())["settings"]["tokenizer"] == "ko-morph"
    expected = load_task(tmp_path / "by_hand").predictions([morphemes(line) for line in lines])
    labels = [label.decode() for label in expected["label"].numpy()]
    model, old = load_task(workdir), load_task(tmp_path / "by_hand", tokenizer="model")
    for each in (model, old, load_task(workdir, workdir)):
        found = each.predictions(np.array(REVIEWS))["probabilities"]
        np.testing.assert_allclose(found, expected["probabilities"], atol=1e-6)
    for folder, option in ((workdir, ()), (tmp_path / "by_hand", ("--tokenize",))):
        out = tmp_path / "out.tsv"
        assert json.loads(stdout_of("task", "evaluate", folder, raw, *option)) == scores
        stdout_of("task", "predict", folder, text, out, "--overwrite", *option)
        assert out.read_text() == "".join(f"{a}\t{b}\n" for a, b in zip(labels, lines, strict=True))
    stdout_of("task", "export", workdir, tmp_path / "exported")
    with (
        serve(tmp_path / "exported", port=0, rest_port=0) as server,
        Client(f"localhost:{server.port}") as client,
    ):
        served = client.predict(REVIEWS, outputs=(), signature="text")
    assert served["label"].tolist() == [label.encode() for label in labels]
    np.testing.assert_allclose(served["probabilities"], expected["probabilities"], atol=1e-5)


def test_raw_texts_are_fitted_as_their_tokens(korean):
    found = []
    for tokenizer, texts in ((None, list(map(morphemes, REVIEWS))), ("model", REVIEWS)):
        elmo = Elmo(load_bilm(korean), dropout=0.0)
        model = BiLSTMClassifier(LABELS[:2], elmo=elmo, units=3, dropout=0.0, tokenizer=tokenizer)
        model.set_weights([np.full(one.shape, 0.1) for one in model.get_weights()])
        model.compile("sgd", metrics=["accuracy"])
        model.fit(texts, LABELS, shuffle=False, verbose=0)
        found.append([*model.evaluate(texts, LABELS, verbose=0), *model.predict(texts, verbose=0)])
    np.testing.assert_allclose(*(np.hstack(each) for each in found), atol=1e-6)


def test_a_labeled_word_has_the_mean_layers_of_its_morphemes(korean, tmp_path, stdout_of):
    columns, exported = tmp_path / "tags.conll", tmp_path / "exported"
    columns.write_text(TAGGED)
    train(stdout_of, columns, tmp_path / "run", korean, "--task", "pos", "--tokenize")

    tagger = load_task(tmp_path / "run")

    words = [["학교에", "갔다", "."], ["배가", "왔다."]]
    layers = tagger.named_inputs(words)["layers"].numpy()
    for row, sentence in zip(layers, words, strict=True):
        tokens, owners = align(sentence, LanguageTokenizer("ko-morph"))
        of_tokens = tagger.elmo.bilm([tokens])["layers"][0].numpy()
        for index in range(len(sentence)):
            mean = np.mean(of_tokens[:, np.array(owners) == index], axis=1)
            np.testing.assert_allclose(row[:, index], mean, atol=1e-5)
    texts = list(map(" ".join, words))
    found = tagger.predictions(texts)
    stdout_of("task", "export", tmp_path / "run", exported)
    with (
        serve(exported, port=0, rest_port=0) as server,
        Client(f"localhost:{server.port}") as client,
    ):
        served = client.predict(texts, (), signature="text")
    assert served["tags"].tolist() == found["tags"].numpy().tolist()
    np.testing.assert_allclose(served["probabilities"], found["probabilities"], atol=1e-5)
    tagger.compile("sgd")
    tagger.fit(texts, [["NOUN", "VERB", "PUNCT"], ["NOUN", "VERB"]], verbose=0)


def test_labeled_words_are_not_tokenized_for_a_bilm_in_training(korean):
    elmo = Elmo(load_bilm(korean), trainable_bilm=True)
    with pytest.raises(ValueError, match="needs a frozen biLM"):
        CRFTagger(["A"], elmo=elmo, tokenizer="model")


def test_raw_text_without_a_tokenizer_is_reported(tmp_path, stdout_of, caplog):
    table = tmp_path / "raw.csv"
    write_table(table, [f"{review} " * 3 for review in REVIEWS])
    train(stdout_of, table, tmp_path / "run", "small-ko", *CLASSIFIER)
    assert "which the tokenizer ko-morph has split. Is the text raw?" in caplog.text
