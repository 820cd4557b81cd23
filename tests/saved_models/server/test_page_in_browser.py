"""The server's page in a real browser: a biLM, and task models whose predictions are known."""

import contextlib
import functools
from pathlib import Path

import numpy as np
import pytest

import browser
from elmo_tf.saved_models import export_task
from elmo_tf.saved_models.server.server import serve
from server_page import (
    DOCUMENT,
    FIRST,
    IN_BROWSER,
    MARKUP,
    MINUS,
    MODELS,
    ROLES,
    SECOND,
    SENTENCE,
    Page,
    assert_no_errors,
    cosines,
    save,
    vectors,
)
from task_models import new_model

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def serve_page():
    """Serves a folder, and returns the port of the page."""
    with contextlib.ExitStack() as servers:
        yield (
            lambda folder: (
                servers.enter_context(serve(folder, "a model/1", port=0, rest_port=0)).rest_port
            )
        )


@pytest.fixture(scope="module")
def port_of(tmp_path_factory, exported_bilm, serve_page):
    """Returns the port of the page of a real biLM (`bilm`), or of one of `MODELS`."""

    @functools.cache
    def port_of(name):
        if name == "bilm":
            return serve_page(Path(exported_bilm).parent)
        return serve_page(save(tmp_path_factory.mktemp(name), MODELS[name]))

    return port_of


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """A tab of a real browser."""
    with browser.running(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def page(tab, port_of):
    """The page of a server. After the test, it must have no errors."""
    yield Page(tab, port_of)
    assert_no_errors(tab)


def test_the_page_opens_with_an_example_and_a_map_of_cosines_per_layer(page):
    page.open()
    assert "bank" in page.tokens()
    assert page.selected() == ["bank"]
    page.enter(first=FIRST, second=SECOND)
    assert page.tokens() == FIRST.split()
    assert page.layers() == ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"]
    for part in ("thead", "tbody"):
        assert page.texts(f".map:last-child {part} th") == FIRST.split()
    wanted = [cosines(layer, layer) for layer in vectors(page, FIRST).values()]
    written = [float(text.replace(MINUS, "-")) for text in page.texts("tbody td")]
    np.testing.assert_allclose(written, np.ravel(wanted), atol=0.00501)


def test_a_selected_token_shows_its_neighbors_in_the_second_sentence(page):
    page.open(first=FIRST, second=SECOND, token=1)
    position = FIRST.split().index("on")
    page.choose(".tokens button", position)
    assert page.selected() == ["on"]
    assert page.tab.evaluate("document.activeElement.textContent") == "on"
    layers = zip(vectors(page, FIRST).values(), vectors(page, SECOND).values(), strict=True)
    wanted = []
    for first, second in layers:
        row = cosines(first, second)[position]
        nearest = np.argsort(-row.round(9), kind="stable")[:5]
        wanted += [f"{SECOND.split()[i]}{i + 1}{row[i]:.3f}".replace("-", MINUS) for i in nearest]
    assert page.texts(".neighbors li") == wanted


def test_sentences_are_split_as_in_python(page):
    space = [chr(code) for code in range(0x10000) if chr(code).isspace()]
    other = ["\ufeff", "\u180e", "\u200b", "\u2060"]
    sentence = "".join(f"a{one}" for one in space if one not in "\r\n") + "b".join(other)
    page.open(first=sentence, second="")
    assert page.tokens() == sentence.split()


def test_empty_and_too_long_sentences_are_reported_and_long_ones_scroll(page):
    page.open(first=" \t ", second=SECOND)
    assert page.message() == "The first sentence is empty."
    assert not page.is_visible("#results")
    page.enter(first=FIRST, second="")
    assert (page.message(), page.tokens()) == (None, FIRST.split())
    assert page.texts(".neighbors li") == []
    page.open(first="a bb " * 50, second="a")
    assert len(page.texts("tbody td")) == 4 * 100 * 100
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.open(first="a", second="a bb " * 51)
    assert page.message() == "The second sentence has 102 tokens. The maximum is 100."


def test_the_url_keeps_the_state_of_the_page(page):
    page.open()
    page.enter(first=FIRST, second=SECOND)
    page.choose(".tokens button", 1)
    state = {"first": [FIRST], "second": [SECOND], "token": ["2"]}
    assert page.state() == state
    page.tab.call("Page.reload")
    page.tab.wait_for("performance.getEntriesByType('navigation')[0].type === 'reload'")
    page.wait()
    assert page.tokens() == FIRST.split()
    assert page.selected() == ["sat"]
    for token in ("-1", "2.5", "9", "bank"):
        page.open(first=FIRST, second=SECOND, token=token)
        assert page.selected() == ["bank"]


def test_raw_text_is_tokenized_by_the_server(tab, naming_tokenizer, serve_page):
    page = Page(tab, lambda name: serve_page(naming_tokenizer("xx")))
    page.open(first="Cats, dogs!", second="cats?")
    assert page.tokens() == ["Cats", ",", "dogs", "!"]
    assert sorted(text[0] for text in page.texts(".neighbors li")[:2]) == ["?", "c"]
    assert_no_errors(tab)


def test_tags_have_their_tokens(page):
    page.open(model="tags", sentence="in Oslo <b>Ann</b> met Bo")
    assert page.texts("h1") == ["Labels of tokens"]
    expected = [("in", None), ("Oslo", "B-NAME"), ("<b>Ann</b>", None), ("met", None)]
    assert page.labeled() == [*expected, ("Bo", "B-NAME")]


def test_all_exported_task_models_are_recognized_and_a_stopped_server_is_reported(
    tab, tmp_path, eager_functions
):
    models = {
        "Labels of tokens": new_model("tagger"),
        "Label of a text": new_model("classifier"),
        "Label of a pair of sentences": new_model("esim"),
        "Semantic roles": new_model("srl"),
        "Answers to questions": new_model("bidaf"),
        "Coreference": new_model("coref", genres=(), mention_loss=1.0),
    }
    for title, model in models.items():
        export_task(model, tmp_path / title, check=False)
        with serve(tmp_path / title, port=0, rest_port=0) as server:
            page = Page(tab, {title: server.rest_port}.get)
            page.open(model=title)
            assert (page.texts("h1"), page.message()) == ([title], None)
    page.enter(document=SECOND)
    assert page.message() == "The server does not answer. Is it still running?"
    assert not page.is_visible("#results")
    assert_no_errors(tab)


def test_texts_and_pairs_have_a_label_and_all_probabilities(page):
    page.open(model="label", text="a fine film")
    rows = [["<b>good</b>", "0.700"], ["label 2", "0.250"], ["label 1", "0.050"]]
    assert page.texts(".ranking li") == ["".join(row) for row in rows]
    page.open(model="pair")
    assert page.texts("#fields label") == ["Premise", "Hypothesis"]
    page.enter(premise="a cat sits", hypothesis="a cat")
    assert page.texts(".ranking strong") == ["<b>good</b>"]
    assert page.state() == {"premise": ["a cat sits"], "hypothesis": ["a cat"]}


def test_the_selected_predicate_has_its_roles_below_the_sentence(page):
    page.open(model="roles", sentence=SENTENCE)
    assert page.labeled() == [(token, None) for token in SENTENCE.split()]
    page.choose(".labeled button", 3)
    assert page.state()["predicate"] == ["4"]
    assert page.labeled() == ROLES
    assert page.selected() == ["gave"]
    page.enter(sentence="The cat gave cheese .")
    assert page.labeled() == [(token, None) for token in ["The", "cat", "gave", "cheese", "."]]
    assert "predicate" not in page.state()


def test_all_predicates_that_the_model_finds_have_their_roles(page):
    page.open(model="plain", sentence=SENTENCE)
    assert page.labeled() == ROLES
    page.enter(sentence=SENTENCE.replace("The", "Old"))
    assert page.selected() == ["Old", "gave"]
    assert page.labeled()[-4:] == [("Old old cat", "ARG0"), *ROLES[1:]]
    page.choose(".labeled button", 2)
    assert page.selected() == ["Old", "gave", "cat"]
    assert page.tab.evaluate("document.activeElement.textContent") == "cat"
    page.enter(sentence="It rains .")
    assert page.labeled() == [(token, None) for token in ("It", "rains", ".")]


def test_the_answer_is_marked_in_its_passage(page):
    passage = "It was  built\nin 1532 ."
    page.open(model="answer", passage=passage, question="When ?")
    assert page.texts("strong") == ["was built in"]
    assert page.texts("mark") == ["was  built\nin"]
    assert page.texts(".text") == [passage]


def test_mentions_have_the_numbers_and_colors_of_their_entities(page):
    page.open(model="coref", document=DOCUMENT)
    assert page.texts(".text p") == ["[Ann]1 saw [[her]1 sister]2 .", "", "[She]2 waved ."]
    color = "(one) => getComputedStyle(one).backgroundColor"
    colors = page.tab.evaluate(f"[...document.querySelectorAll('.mention')].map({color})")
    assert colors[0] == colors[2] != colors[1] == colors[3]
    page.open(model="coref", document="It rains .")
    assert page.texts("#results .hint") == ["The model finds no mentions in this document."]


@pytest.mark.parametrize(
    ("model", "field", "choice"),
    [
        ("bilm", "first", {"second": MARKUP, "token": 2}),
        ("tags", "sentence", {}),
        ("label", "text", {}),
        ("pair", "premise", {"hypothesis": "a"}),
        *((model, "sentence", {"predicate": 2}) for model in ("roles", "plain")),
        ("answer", "passage", {"question": MARKUP}),
        ("coref", "document", {}),
    ],
)
def test_markup_is_shown_as_text_and_every_model_opens_with_an_example(page, model, field, choice):
    page.open(model=model, **{field: f"Ann {MARKUP} a b c"}, **choice)
    assert page.message() is None
    assert page.tab.evaluate("document.querySelectorAll('img, body script').length") == 0
    page.open(model=model)
    assert page.message() is None
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_unknown_kind_of_model_and_server_errors_are_reported(page):
    page.open(model="other")
    assert page.message() == (
        "This page cannot show the model a model/1. It shows biLMs and task models that elmo_tf "
        "exported. The signatures of this model: double."
    )
    assert not page.is_visible("#form")
    page.open(model="tags")
    assert page.message() is None
    page.tab.evaluate("document.querySelector('#sentence').value = '\\ud800'")
    page.choose("#action")
    assert page.message().startswith("The server rejected the request: Expected strings to hold")
    assert not page.is_visible("#results")
