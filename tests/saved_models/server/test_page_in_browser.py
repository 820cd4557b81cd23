"""The page in a real browser, with a real exported model."""

import json
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

from elmo_tf.saved_models.server.server import serve
from server_page import IN_BROWSER, Page, assert_no_errors

pytestmark = IN_BROWSER

FIRST = "They sat on the bank ."
SECOND = "A bank lends the bank money"


@pytest.fixture(scope="module")
def elmo_server(exported_bilm):
    with serve(Path(exported_bilm).parent, port=0, rest_port=0) as server:
        yield server


@pytest.fixture
def page(tab, elmo_server):
    """The page of `elmo_server`. After the test, it must have no errors."""
    yield NeighborsPage(tab, elmo_server.rest_port)
    assert_no_errors(tab, elmo_server.rest_port)


class NeighborsPage(Page):
    """The page of a biLM."""

    maps = "document.querySelectorAll('.map')"

    def compare(self, first, second):
        self.enter(first=first, second=second)

    def tokens(self, which="first"):
        return self.texts(f"#{which}-tokens bdi")

    def layers(self):
        return self.texts("#maps h3 code")

    def similarities(self):
        """Returns (layer, row, column)."""
        cells = (
            "[...row.querySelectorAll('[data-similarity]')].map((one) => +one.dataset.similarity)"
        )
        rows = f"[...map.querySelectorAll('tbody tr')].map((row) => {cells})"
        return np.array(self.tab.evaluate(f"[...{self.maps}].map((map) => {rows})"))

    def neighbors(self):
        """Returns (token, its number, similarity) of each layer, nearest first."""
        text = "(selector) => item.querySelector(selector).textContent"
        item = f"['bdi', 'small', '.number'].map({text})"
        lists = "[...document.querySelectorAll('#neighbors ol')]"
        items = f"[...list.children].map((item) => {item})"
        return self.tab.evaluate(f"{lists}.map((list) => {items})")

    def token(self, position):
        return f"document.querySelectorAll('#first-tokens button')[{position}]"

    def cell(self, layer, row, column):
        return f"{self.maps}[{layer}].querySelector('tbody').rows[{row}].cells[{column + 1}]"


def vectors(page, sentence):
    """Returns {layer: (token, feature)} from the server, in the order of the layers."""
    inputs = {"tokens": [sentence.split()], "sequence_len": [len(sentence.split())]}
    body = json.dumps({"signature_name": "tokens", "inputs": inputs}).encode()
    with urllib.request.urlopen(f"{page.address}v1/models/elmo:predict", body) as response:
        outputs = json.load(response)["outputs"]
    lstms = sorted(name for name in outputs if name.startswith("lstm_outputs"))
    return {name: np.array(outputs[name][0]) for name in ("word_emb", *lstms, "elmo")}


def cosines(a, b):
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return a @ b.T / lengths


def shown(similarity, decimals=3):
    return f"{similarity:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def test_the_page_opens_with_an_example_and_its_ambiguous_word(page):
    page.open()
    assert "bank" in page.tokens("first")
    assert page.texts("#first-tokens [aria-pressed=true] bdi") == ["bank"]
    assert len(page.neighbors()) == len(page.layers()) == 4
    assert page.texts("#model option") == ["elmo"]


def test_sentences_are_shown_as_tokens_and_a_map_per_layer(page):
    page.open()
    page.compare(FIRST, SECOND)
    assert page.tokens("first") == FIRST.split()
    assert page.tokens("second") == SECOND.split()
    assert page.layers() == ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"]
    assert page.texts(".map:last-child thead th") == FIRST.split()
    assert page.texts(".map:last-child tbody th") == FIRST.split()


def test_the_cells_show_the_cosines_of_the_servers_vectors(page):
    page.open(first=FIRST, second=SECOND)
    wanted = [cosines(layer, layer) for layer in vectors(page, FIRST).values()]
    np.testing.assert_allclose(page.similarities(), wanted, atol=1e-5)
    written = [float(text.replace("\N{MINUS SIGN}", "-")) for text in page.texts("tbody td")]
    np.testing.assert_allclose(written, np.ravel(wanted), atol=0.00501)


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_a_selected_token_shows_its_neighbors_in_the_second_sentence(page, way):
    page.open(first=FIRST, second=SECOND, token=1)
    position = FIRST.split().index("on")
    if way == "click":
        page.tab.click(page.token(position))
    else:
        page.tab.evaluate(f"{page.token(position)}.focus()")
        page.tab.press("Enter")
    assert page.texts("#first-tokens [aria-pressed=true] bdi") == ["on"]
    layers = zip(vectors(page, FIRST).values(), vectors(page, SECOND).values(), strict=True)
    wanted = []
    for first, second in layers:
        row = cosines(first, second)[position]
        nearest = np.argsort(-row.round(9), kind="stable")[:5]
        wanted.append([[SECOND.split()[i], str(i + 1), shown(row[i])] for i in nearest])
    assert page.neighbors() == wanted


def test_hovering_over_a_cell_shows_its_pair_in_every_layer(page):
    page.open(first=FIRST, second=SECOND)
    page.tab.hover(page.cell(1, 0, 4))
    wanted = [cosines(layer, layer)[0, 4] for layer in vectors(page, FIRST).values()]
    assert page.texts(".readout") == [f"They · bank{shown(one)}" for one in wanted]


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
    nodes = page.tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes]
    assert ("grid", "Similarity of every pair of tokens in lstm_outputs2") in named
    assert named.count(("columnheader", "bb")) == named.count(("rowheader", "bb")) == 4
    assert named.count(("gridcell", "1.00")) >= 8


def test_markup_in_a_sentence_is_shown_as_text(page):
    page.open()
    sentence = '<img/src=x/onerror="alert(1)"> </bdi><script>alert(2)</script> &amp;'
    page.compare(sentence, sentence)
    assert page.tokens("first") == page.tokens("second") == sentence.split()
    page.tab.hover(page.cell(0, 0, 1))
    page.tab.click(page.token(1))
    assert page.tab.evaluate("document.querySelectorAll('img, body script').length") == 0


def test_sentences_are_split_as_in_python(page):
    space = [chr(code) for code in range(0x10000) if chr(code).isspace()]
    other = ["\ufeff", "\u180e", "\u200b", "\u2060"]
    sentence = "a".join(space) + "b".join(other)
    page.open(first=sentence, second="")
    assert page.tokens() == sentence.replace("\r\n", "\n").split()


def test_an_empty_sentence_is_reported(page):
    page.open()
    page.compare(" \t ", SECOND)
    assert page.message() == "The first sentence is empty. Enter a sentence to see its tokens."
    assert page.tab.evaluate("document.querySelector('#results').hidden")
    page.compare(FIRST, "")
    assert page.message() is None
    assert page.tokens() == FIRST.split()
    assert page.texts("#neighbors") == ["The second sentence is empty."]


def test_long_sentences_scroll_and_too_long_ones_are_refused(page):
    page.open(first="a bb " * 50, second="a")
    assert page.similarities().shape == (4, 100, 100)
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.open(first="a bb " * 50 + "a", second="a")
    assert page.message() == "The first sentence has 101 tokens. The maximum is 100."
    page.open(first="a", second="a bb " * 51)
    assert page.message() == "The second sentence has 102 tokens. The maximum is 100."


def test_the_url_keeps_the_state_of_the_page(page):
    page.open()
    page.compare(FIRST, SECOND)
    page.tab.click(page.token(1))
    state = parse_qs(page.tab.evaluate("location.hash.slice(1)"))
    assert state == {"model": ["elmo"], "first": [FIRST], "second": [SECOND], "token": ["2"]}
    page.tab.call("Page.reload")
    page.tab.wait_for("performance.getEntriesByType('navigation')[0].type === 'reload'")
    page.wait()
    assert page.tokens() == FIRST.split()
    assert page.texts("#first-tokens [aria-pressed=true] bdi") == ["sat"]


@pytest.mark.parametrize("token", ["-1", "0", "2.5", "9", "bank"])
def test_an_invalid_token_in_the_url_selects_another_token(page, token):
    page.open(first=FIRST, second=SECOND, token=token)
    assert page.texts("#first-tokens [aria-pressed=true] bdi") == ["bank"]


def test_one_of_several_models_is_selected(tab, exported_bilm, model_directory):
    folders = {"bilm": Path(exported_bilm).parent, "lengths": model_directory}
    with serve(folders, port=0, rest_port=0) as server:
        page = NeighborsPage(tab, server.rest_port)
        page.open(first=FIRST, second=SECOND, token=3)
        assert page.texts("#model option") == ["bilm", "lengths"]
        assert len(page.layers()) == 4
        page.tab.evaluate("document.querySelector('#model').focus()")
        page.tab.press("ArrowDown")
        page.tab.wait_for("location.hash.includes('model=lengths')")
        page.wait()
        assert page.layers() == ["word_emb", "elmo"]
        page.open(model="bilm", first=FIRST, second=SECOND)
        assert len(page.layers()) == 4
    assert_no_errors(tab, server.rest_port)


def test_fewer_layers_are_shown_and_a_stopped_server_is_reported(tab, model_directory):
    with serve(model_directory, name="a model/1", port=0, rest_port=0) as server:
        page = NeighborsPage(tab, server.rest_port)
        page.open(first=FIRST, second=SECOND)
        assert page.layers() == ["word_emb", "elmo"]
        assert page.texts("#model option") == ["a model/1"]
        np.testing.assert_allclose(page.similarities(), 1, atol=1e-6)
    page.compare(SECOND, FIRST)
    assert page.message() == "The server does not answer. Is it still running?"
    assert page.tab.evaluate("document.querySelector('#results').hidden")
    assert_no_errors(tab, server.rest_port)
