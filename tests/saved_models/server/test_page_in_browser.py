"""The server's page in a real browser: a biLM, and task models whose predictions are known."""

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
def server(tmp_path_factory, model_directory, exported_bilm):
    """Serves a real biLM as `a bilm/1`, one of two layers as `lengths`, and `MODELS`."""
    directory = tmp_path_factory.mktemp("tasks")
    folders = {name: save(directory / name, signatures) for name, signatures in MODELS.items()}
    folders |= {"a bilm/1": Path(exported_bilm).parent, "lengths": model_directory}
    with serve(folders, port=0, rest_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """A tab of a real browser."""
    with browser.running(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def page(tab, server):
    """The page of `server`. After the test, it must have no errors."""
    yield Page(tab, server.rest_port)
    assert_no_errors(tab, server.rest_port)


def test_the_page_opens_with_an_example_and_its_ambiguous_word(page):
    page.open()
    assert "bank" in page.tokens("first")
    assert page.selected() == ["bank"]
    assert len(page.neighbors()) == len(page.layers()) == 4
    assert page.texts("#model option") == sorted([*MODELS, "a bilm/1", "lengths"])


def test_sentences_have_a_map_of_cosines_per_layer(page):
    page.open()
    page.enter(first=FIRST, second=SECOND)
    assert page.tokens("first") == FIRST.split()
    assert page.tokens("second") == SECOND.split()
    assert page.layers() == ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"]
    for part in ("thead", "tbody"):
        assert page.texts(f".map:last-child {part} th") == FIRST.split()
    wanted = [cosines(layer, layer) for layer in vectors(page, FIRST).values()]
    np.testing.assert_allclose(page.similarities(), wanted, atol=1e-5)
    written = [float(text.replace(MINUS, "-")) for text in page.texts("tbody td")]
    np.testing.assert_allclose(written, np.ravel(wanted), atol=0.00501)
    page.tab.hover(page.cell(1, 0, 4))
    shown = [f"They · bank{layer[0, 4]:.3f}".replace("-", MINUS) for layer in wanted]
    assert page.texts(".readout") == shown


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_a_selected_token_shows_its_neighbors_in_the_second_sentence(page, way):
    page.open(first=FIRST, second=SECOND, token=1)
    position = FIRST.split().index("on")
    page.choose(page.token(position), way)
    assert page.selected() == ["on"]
    layers = zip(vectors(page, FIRST).values(), vectors(page, SECOND).values(), strict=True)
    wanted = []
    for first, second in layers:
        row = cosines(first, second)[position]
        nearest = np.argsort(-row.round(9), kind="stable")[:5]
        shown = [f"{row[i]:.3f}".replace("-", MINUS) for i in nearest]
        tokens = [SECOND.split()[i] for i in nearest]
        wanted.append(
            [list(item) for item in zip(tokens, map(str, nearest + 1), shown, strict=True)]
        )
    assert page.neighbors() == wanted


def test_arrow_keys_move_between_cells_and_stop_at_the_edges(page):
    page.open(first=FIRST, second=SECOND)
    page.tab.evaluate(f"{page.cell(0, 0, 0)}.focus()")
    for key in ("ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.tab.press(key)
    assert page.texts(".readout")[0].startswith("sat · sat1.000")
    page.tab.press("End")
    page.tab.press("ArrowRight")
    assert page.texts(".readout")[0].startswith("sat · .")
    assert page.tab.evaluate(f"{page.maps}[0].querySelectorAll('[tabindex=\"0\"]').length") == 1


def test_screen_readers_get_tables_with_headers_and_numbers(page):
    page.open(first="a bb", second="")
    named = page.named()
    assert ("grid", "Similarity of every pair of tokens in lstm_outputs2") in named
    assert named.count(("columnheader", "bb")) == named.count(("rowheader", "bb")) == 4
    assert named.count(("gridcell", "1.00")) >= 8


def test_sentences_are_split_as_in_python(page):
    space = [chr(code) for code in range(0x10000) if chr(code).isspace()]
    other = ["\ufeff", "\u180e", "\u200b", "\u2060"]
    sentence = "a".join(space) + "b".join(other)
    page.open(first=sentence, second="")
    assert page.tokens() == sentence.replace("\r\n", "\n").split()
    assert not page.is_visible("#raw-text")


def test_raw_text_is_reported_with_an_example(page):
    page.open(first="It rained , he said.", second="Was it ?")
    (hint,) = page.texts("#raw-text")
    assert hint == "“said.” is read as one word. Separate punctuation by spaces: “said .”."
    page.enter(first="It rained , he said .")
    assert not page.is_visible("#raw-text")


def test_empty_and_too_long_sentences_are_reported_and_long_ones_scroll(page):
    page.open(first=" \t ", second=SECOND)
    assert page.message() == "The first sentence is empty. Enter a sentence to see its tokens."
    assert not page.is_visible("#results")
    page.enter(first=FIRST, second="")
    assert (page.message(), page.tokens()) == (None, FIRST.split())
    assert page.texts("#neighbors") == ["The second sentence is empty."]
    page.open(first="a bb " * 50, second="a")
    assert page.similarities().shape == (4, 100, 100)
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.open(first="a", second="a bb " * 51)
    assert page.message() == "The second sentence has 102 tokens. The maximum is 100."


def test_the_url_keeps_the_state_of_the_page(page):
    page.open()
    page.enter(first=FIRST, second=SECOND)
    page.tab.click(page.token(1))
    state = {"model": ["a bilm/1"], "first": [FIRST], "second": [SECOND], "token": ["2"]}
    assert page.state() == state
    page.tab.call("Page.reload")
    page.tab.wait_for("performance.getEntriesByType('navigation')[0].type === 'reload'")
    page.wait()
    assert page.tokens() == FIRST.split()
    assert page.selected() == ["sat"]
    for token in ("-1", "2.5", "9", "bank"):
        page.open(first=FIRST, second=SECOND, token=token)
        assert page.selected() == ["bank"]


def test_a_stopped_server_is_reported(tab, model_directory):
    with serve({"lengths": model_directory}, port=0, rest_port=0) as server:
        page = Page(tab, server.rest_port)
        page.open(model="lengths", first=FIRST, second=SECOND)
        assert page.layers() == ["word_emb", "elmo"]
        np.testing.assert_allclose(page.similarities(), 1, atol=1e-6)
    page.enter(first=SECOND, second=FIRST)
    assert page.message() == "The server does not answer. Is it still running?"
    assert not page.is_visible("#results")
    assert_no_errors(tab, server.rest_port)


def test_tags_other_than_o_are_shown_below_their_tokens(page):
    page.open(model="tags", sentence="in Oslo <b>Ann</b> met Bo")
    assert page.texts("h1") == ["Labels of tokens"]
    expected = [("in", None), ("Oslo", "B-NAME"), ("<b>Ann</b>", None), ("met", None)]
    assert page.labeled() == [*expected, ("Bo", "B-NAME")]
    page.enter(sentence="only small ones")
    assert page.texts("#prediction .hint") == ["The model labels all tokens O."]


def test_texts_and_pairs_have_a_label_and_all_probabilities(page):
    page.open(model="label", text="a fine film")
    rows = [["<b>good</b>", "0.700"], ["label 2", "0.250"], ["label 1", "0.050"]]
    assert page.texts(".ranking li") == ["".join(row) for row in rows]
    page.open(model="pair")
    assert page.texts("#fields label") == ["Premise", "Hypothesis"]
    page.enter(premise="a cat sits", hypothesis="a cat")
    assert page.texts(".ranking strong") == ["<b>good</b>"]
    state = {"model": ["pair"], "premise": ["a cat sits"], "hypothesis": ["a cat"]}
    assert page.state() == state
    page.enter(premise=" ", hypothesis="a cat")
    message = "The premise is empty. Enter two sentences to see the label of the pair."
    assert page.message() == message


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_the_selected_predicate_has_its_roles_below_the_sentence(page, way):
    page.open(model="roles", sentence=SENTENCE)
    assert page.labeled() == [(token, None) for token in SENTENCE.split()]
    page.choose("document.querySelectorAll('.labeled button')[3]", way)
    page.tab.wait_for("location.hash.includes('predicate=4')")
    page.wait()
    assert page.labeled() == ROLES
    assert page.texts(".labeled [aria-pressed=true]") == ["gave"]
    assert page.tab.evaluate("document.activeElement.textContent") == "gave"
    page.enter(sentence="The old cat gave cheese .")  # the token is still at its place
    assert page.labeled()[1:] == [("gave", "V"), ("cheese", "ARG1"), (".", None)]
    page.enter(sentence="The cat gave cheese .")
    assert page.texts(".labeled [aria-pressed=true], .labeled b") == []
    assert "predicate" not in page.state()
    page.open(model="roles", sentence=SENTENCE, predicate="8")
    assert page.labeled() == [(token, None) for token in SENTENCE.split()]


def test_all_predicates_that_the_model_finds_have_their_roles(page):
    page.open(model="plain", sentence=SENTENCE)
    assert page.labeled() == ROLES
    page.enter(sentence=SENTENCE.replace("The", "Old"))
    assert page.texts(".labeled [aria-pressed=true]") == ["Old", "gave"]
    assert page.labeled()[-4:] == [("Old old cat", "ARG0"), *ROLES[1:]]
    page.choose("document.querySelectorAll('.labeled')[1].querySelectorAll('button')[2]", "click")
    page.tab.wait_for("location.hash.includes('predicate=3')")
    page.wait()
    assert page.texts(".labeled [aria-pressed=true]") == ["Old", "cat", "gave"]
    assert page.tab.evaluate("document.activeElement.textContent") == "cat"
    page.enter(sentence="It rains .")
    assert page.labeled() == [(token, None) for token in ("It", "rains", ".")]
    (hint,) = page.texts("#prediction .hint")
    assert hint.startswith("The model finds no predicate in this sentence.")


def test_the_answer_is_marked_in_its_passage(page):
    passage = "It was  built\nin 1532 ."
    page.open(model="answer", passage=passage, question="When ?")
    assert page.texts(".answer strong, .answer .number") == ["was built in", "0.625"]
    assert page.texts("mark") == ["was  built\nin"]
    assert page.texts(".text") == [passage]
    page.enter(passage="one two three four")  # Enter adds a line to long texts
    value = "document.querySelector('#passage').value"
    assert page.tab.evaluate(value) == "one two three four\n"
    assert page.texts("mark") != ["two three four"]
    page.enter(ctrl=True, passage="one two three four")
    assert page.texts("mark") == ["two three four"]


def test_mentions_have_the_numbers_and_colors_of_their_entities(page):
    page.open(model="coref", document=DOCUMENT)
    assert page.texts(".text p") == ["[Ann]1 saw [[her]1 sister]2 .", "", "[She]2 waved ."]
    assert page.texts(".entities li") == ["1 Ann · her", "2 her sister · She"]
    color = "(one) => getComputedStyle(one).backgroundColor"
    colors = page.tab.evaluate(f"[...document.querySelectorAll('.mention')].map({color})")
    assert colors[0] == colors[2] != colors[1] == colors[3]
    assert {("group", "Entity 1: Ann"), ("group", "Entity 2: her sister")} <= set(page.named())
    page.open(model="coref", document="It rains .")
    assert page.texts("#prediction .hint") == ["The model finds no mentions in this document."]


def test_selecting_a_mention_outlines_its_entity(page):
    page.open(model="coref", document=DOCUMENT)
    page.tab.hover("document.querySelectorAll('.mention')[3]")
    assert page.texts(".mention.outlined") == ["[[her]1 sister]2", "[She]2"]
    page.tab.hover("document.querySelector('h1')")
    assert page.texts(".outlined") == []
    page.tab.evaluate("document.querySelector('.mention').focus()")
    for key, text in [
        *(("ArrowUp", "[Ann]1"), ("ArrowDown", "[her]1"), ("ArrowRight", "[She]2")),
        *(("ArrowLeft", "[her]1"), ("End", "[She]2"), ("ArrowUp", "[[her]1 sister]2")),
    ]:
        page.tab.press(key)
        assert page.tab.evaluate("document.activeElement.textContent") == text
        assert text in page.texts(".mention.outlined")
    assert page.texts(".mention[tabindex='0']") == ["[[her]1 sister]2"]


@pytest.mark.parametrize(
    ("model", "field", "choice"),
    [
        ("a bilm/1", "first", {"second": MARKUP, "token": 2}),
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
    for number in range(len(page.texts("#examples button"))):
        page.tab.click(f"document.querySelectorAll('#examples button')[{number}]")
        page.wait()
        assert page.message() is None
        assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_all_exported_task_models_are_recognized(tab, tmp_path, eager_functions):
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
    with serve({title: tmp_path / title for title in models}, port=0, rest_port=0) as server:
        page = Page(tab, server.rest_port)
        for title in models:
            page.open(model=title)
            assert (page.texts("h1"), page.message()) == ([title], None)
    assert_no_errors(tab, server.rest_port)


def test_selecting_another_model_changes_the_form_and_keeps_texts(page):
    page.open(model="tags", sentence=SENTENCE)
    page.select("lengths")
    assert page.texts("h1") == ["Tokens and their neighbors"]
    assert page.layers() == ["word_emb", "elmo"]
    assert not page.is_visible("#prediction")
    page.select("roles")
    assert page.texts("h1") == ["Semantic roles"]
    assert page.labeled() == [(token, None) for token in SENTENCE.split()]


def test_an_unknown_kind_of_model_and_server_errors_are_reported(page):
    page.open(model="other")
    assert page.message() == (
        "This page cannot show the model other. It shows biLMs and task models that elmo_tf "
        "exported. The signatures of this model: double."
    )
    assert not page.is_visible("#form")
    page.select("tags")
    assert page.message() is None
    page.tab.evaluate("document.querySelector('#sentence').value = '\\ud800'")
    page.tab.click("document.querySelector('#compare')")
    page.wait()
    assert page.message().startswith("The server rejected the request: Expected strings to hold")
    assert not page.is_visible("#results")
