"""The page of task models in a real browser, with models whose predictions are known."""

from urllib.parse import parse_qs

import pytest
import tensorflow as tf

from elmo_tf.saved_models import export_task
from elmo_tf.saved_models.server.server import serve
from elmo_tf.tasks import (
    ESIM,
    BiDAF,
    BiLSTMClassifier,
    CoreferenceModel,
    CRFTagger,
    SRLTagger,
    WordEmbedding,
)
from server_page import IN_BROWSER, Page, assert_no_errors

pytestmark = IN_BROWSER

SENTENCE = "The old cat gave mice cheese ."
DOCUMENT = "Ann saw her sister .\n\nShe waved ."
MENTIONS = [(0, 0, 0), (2, 3, 1), (2, 2, 0), (5, 5, 1), (-1, -1, -1)]
MARKUP = '<img/src=x/onerror="alert(1)"> <script>alert(2)</script> &amp;'


def tags(strings):
    """Capitalized tokens are names."""
    tokens = tf.strings.split(strings)
    names = tf.where(tf.strings.regex_full_match(tokens.values, "[A-Z].*"), "B-NAME", "O")
    return {"tags": tokens.with_values(names).to_tensor(""), "sequence_len": tokens.row_lengths()}


def roles(strings, predicate):
    """Tokens before the predicate are ARG0, those after it ARG1; the last token has no role."""
    tokens = tf.strings.split(strings)
    last = tf.cast(tokens.row_lengths(), tf.int32)[:, None] - 1
    place, predicate = tf.range(tf.reduce_max(last) + 1)[None], predicate[:, None]
    suffix = tf.where(place < predicate, "-ARG0", tf.where(place > predicate, "-ARG1", "-V"))
    begins = (place == 0) | (place == predicate) | (place == predicate + 1)
    bio = tf.strings.join([tf.where(begins, "B", "I"), suffix])
    return {"tags": tf.where(place < last, bio, "O"), "sequence_len": last[:, 0] + 1}


def label(**texts):
    count = tf.size(next(iter(texts.values())))
    return {
        "label": tf.fill([count], "<b>good</b>"),
        "probabilities": tf.tile([[0.05, 0.25, 0.7]], [count, 1]),
    }


def answer(passage, question):
    first, last = 1, 3
    spans = tf.strings.split(passage)[:, first : last + 1]
    return {
        "answer_start": tf.fill(tf.shape(passage), first),
        "answer_end": tf.fill(tf.shape(passage), last),
        "answer": tf.strings.reduce_join(spans, axis=1, separator=" "),
        "probability": tf.fill(tf.shape(passage), 0.625),
    }


def mentions(strings):
    """The mentions of `DOCUMENT`; none if the document lacks "Ann"."""
    has_ann = tf.strings.regex_full_match(strings, "(?s).*Ann.*")[:, None]
    names = ("mention_start", "mention_end", "entity")
    columns = zip(names, zip(*MENTIONS, strict=True), strict=True)
    return {name: tf.where(has_ann, [values], -1) for name, values in columns}


def save(directory, **signatures):
    """Writes a model; a signature is a function and the names and dtypes of its inputs."""
    module = tf.Module()
    functions = {}
    for name, (function, dtypes) in signatures.items():
        specs = {key: tf.TensorSpec([None], dtype, key) for key, dtype in dtypes.items()}
        functions[name] = tf.function(function, autograph=False).get_concrete_function(**specs)
    module.functions = functions
    tf.saved_model.save(module, str(directory / "1"), functions)


STRINGS = {"strings": tf.string}
MODELS = {
    "tags": {"default": (tags, STRINGS)},
    "label": {"default": (lambda strings: label(strings=strings), STRINGS)},
    "pair": {
        "default": (lambda strings: label(strings=strings), STRINGS),
        "pair": (label, {"premise": tf.string, "hypothesis": tf.string}),
    },
    "roles": {"default": (tags, STRINGS), "roles": (roles, {**STRINGS, "predicate": tf.int32})},
    "answer": {"pair": (answer, {"passage": tf.string, "question": tf.string})},
    "coref": {"default": (mentions, STRINGS)},
    "other": {"double": (lambda x: {"y": 2 * x}, {"x": tf.float32})},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, model_directory):
    directory = tmp_path_factory.mktemp("tasks")
    for name, signatures in MODELS.items():
        save(directory / name, **signatures)
    folders = {name: directory / name for name in MODELS} | {"bilm": model_directory}
    with serve(folders, port=0, rest_port=0) as server:
        yield server


@pytest.fixture
def page(tab, server):
    """The page of `server`. After the test, it must have no errors."""
    yield TaskPage(tab, server.rest_port)
    assert_no_errors(tab, server.rest_port)


class TaskPage(Page):
    def select(self, model):
        self.tab.evaluate(f"select = document.querySelector('#model'), select.value = '{model}'")
        self.tab.evaluate("select.dispatchEvent(new Event('change'))")
        self.wait()

    def labelled(self):
        """Returns [(its tokens, its label or None), …] of spans of tokens."""
        tokens = "[...item.querySelectorAll('bdi')].map((one) => one.textContent)"
        item = f"[{tokens}, item.querySelector('b')?.textContent ?? null]"
        items = self.tab.evaluate(
            f"[...document.querySelectorAll('.labelled li')].map((item) => {item})"
        )
        return [(" ".join(tokens), label) for tokens, label in items]

    def state(self):
        return parse_qs(self.tab.evaluate("location.hash.slice(1)"))

    def named(self):
        """Returns the (role, name) pairs that screen readers get."""
        nodes = self.tab.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes]


ROLES = [("The old cat", "ARG0"), ("gave", "V"), ("mice cheese", "ARG1"), (".", None)]


def test_tags_other_than_o_are_shown_below_their_tokens(page):
    page.open(model="tags", sentence="in Oslo <b>Ann</b> met Bo")
    assert page.texts("h1") == ["Labels of tokens"]
    expected = [("in", None), ("Oslo", "B-NAME"), ("<b>Ann</b>", None), ("met", None)]
    assert page.labelled() == [*expected, ("Bo", "B-NAME")]
    page.enter(sentence="only small ones")
    assert page.texts("#prediction .hint") == ["The model labels all tokens O."]


def test_a_text_has_its_label_and_all_probabilities(page):
    page.open(model="label", text="a fine film")
    rows = [["<b>good</b>", "0.700"], ["label 2", "0.250"], ["label 1", "0.050"]]
    assert page.texts(".ranking li") == ["".join(row) for row in rows]
    assert page.texts(".ranking strong") == ["<b>good</b>"]


def test_a_pair_has_a_field_for_each_sentence(page):
    page.open(model="pair")
    assert page.texts("#fields label") == ["Premise", "Hypothesis"]
    page.enter(premise="a cat sits", hypothesis="a cat")
    assert page.texts(".ranking strong") == ["<b>good</b>"]
    state = {"model": ["pair"], "premise": ["a cat sits"], "hypothesis": ["a cat"]}
    assert page.state() == state
    page.enter(premise=" ", hypothesis="a cat")
    assert page.message() == (
        "The premise is empty. Enter two sentences to see the label of the pair."
    )


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_the_selected_predicate_has_its_roles_below_the_sentence(page, way):
    page.open(model="roles", sentence=SENTENCE)
    assert page.labelled() == [(token, None) for token in SENTENCE.split()]
    gave = "document.querySelectorAll('.labelled button')[3]"
    if way == "click":
        page.tab.click(gave)
    else:
        page.tab.evaluate(f"{gave}.focus()")
        page.tab.press("Enter")
    page.tab.wait_for("location.hash.includes('predicate=4')")
    page.wait()
    assert page.labelled() == ROLES
    assert page.texts(".labelled [aria-pressed=true]") == ["gave"]
    assert page.tab.evaluate("document.activeElement.textContent") == "gave"


def test_the_predicate_stays_selected_while_its_token_is_unchanged(page):
    page.open(model="roles", sentence=SENTENCE, predicate=4)
    assert page.labelled() == ROLES
    page.enter(sentence="The old cat gave cheese .")
    assert page.labelled()[1:] == [("gave", "V"), ("cheese", "ARG1"), (".", None)]
    page.enter(sentence="The cat gave cheese .")
    assert page.texts(".labelled [aria-pressed=true], .labelled b") == []
    assert "predicate" not in page.state()


@pytest.mark.parametrize("predicate", ["0", "8", "2.5", "gave"])
def test_an_invalid_predicate_in_the_url_selects_none(page, predicate):
    page.open(model="roles", sentence=SENTENCE, predicate=predicate)
    assert page.labelled() == [(token, None) for token in SENTENCE.split()]


def test_the_answer_is_marked_in_its_passage(page):
    passage = "It was  built\nin 1532 ."
    page.open(model="answer", passage=passage, question="When ?")
    assert page.texts(".answer strong, .answer .number") == ["was built in", "0.625"]
    assert page.texts("mark") == ["was  built\nin"]
    assert page.texts(".text") == [passage]


def test_enter_adds_a_line_to_long_texts_and_ctrl_enter_submits(page):
    page.open(model="answer")
    page.enter(passage="one two three four")
    value = "document.querySelector('#passage').value"
    assert page.tab.evaluate(value) == "one two three four\n"
    assert page.texts("mark") != ["two three four"]
    page.enter(ctrl=True, passage="one two three four")
    assert page.texts("mark") == ["two three four"]


def test_mentions_have_the_numbers_of_their_entities(page):
    page.open(model="coref", document=DOCUMENT)
    assert page.texts(".text p") == ["[Ann]1 saw [[her]1 sister]2 .", "", "[She]2 waved ."]
    assert page.texts(".entities li") == ["1 Ann · her", "2 her sister · She"]
    colour = "(one) => getComputedStyle(one).backgroundColor"
    colours = page.tab.evaluate(f"[...document.querySelectorAll('.mention')].map({colour})")
    assert colours[0] == colours[2] != colours[1] == colours[3]
    named = page.named()
    assert ("group", "Entity 1: Ann") in named
    assert ("group", "Entity 2: her sister") in named


def test_selecting_a_mention_outlines_its_entity(page):
    page.open(model="coref", document=DOCUMENT)
    page.tab.hover("document.querySelectorAll('.mention')[3]")
    assert page.texts(".mention.outlined") == ["[[her]1 sister]2", "[She]2"]
    page.tab.hover("document.querySelector('h1')")
    assert page.texts(".outlined") == []
    page.tab.evaluate("document.querySelector('.mention').focus()")
    for key, text in [
        ("ArrowUp", "[Ann]1"),
        ("ArrowDown", "[her]1"),
        ("ArrowRight", "[She]2"),
        ("ArrowLeft", "[her]1"),
        ("End", "[She]2"),
        ("ArrowUp", "[[her]1 sister]2"),
    ]:
        page.tab.press(key)
        assert page.tab.evaluate("document.activeElement.textContent") == text
        assert text in page.texts(".mention.outlined")
    assert page.texts(".mention[tabindex='0']") == ["[[her]1 sister]2"]


def test_a_document_without_mentions_is_reported(page):
    page.open(model="coref", document="It rains .")
    assert page.texts("#prediction .hint") == ["The model finds no mentions in this document."]
    assert page.texts(".text p") == ["It rains ."]


@pytest.mark.parametrize(
    ("model", "field", "choice"),
    [
        ("tags", "sentence", {}),
        ("label", "text", {}),
        ("pair", "premise", {"hypothesis": "a"}),
        ("roles", "sentence", {"predicate": 2}),
        ("answer", "passage", {"question": MARKUP}),
        ("coref", "document", {}),
    ],
)
def test_markup_is_shown_as_text(page, model, field, choice):
    page.open(model=model, **{field: f"Ann {MARKUP} a b c"}, **choice)
    assert page.message() is None
    assert page.tab.evaluate("document.querySelectorAll('img, body script').length") == 0


@pytest.mark.parametrize("model", [name for name in MODELS if name != "other"])
def test_every_kind_of_model_opens_with_a_working_example(page, model):
    page.open(model=model)
    assert page.message() is None
    assert page.tab.evaluate("document.querySelector('#prediction').checkVisibility()")
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    examples = page.texts("#examples button")
    for number in range(len(examples)):
        page.tab.click(f"document.querySelectorAll('#examples button')[{number}]")
        page.wait()
        assert page.message() is None


def test_all_exported_task_models_are_recognized(tab, tmp_path):
    words = {"embeddings": [WordEmbedding(["the", "cat"], 7)], "placement": "none"}
    models = {
        "Labels of tokens": CRFTagger(["O", "B-X"], **words, units=(3,)),
        "Label of a text": BiLSTMClassifier(["bad", "good"], **words, units=3),
        "Label of a pair of sentences": ESIM(["no", "yes"], **words, units=3),
        "Semantic roles": SRLTagger(["O", "B-A0"], **words, units=3, num_layers=1),
        "Answers to questions": BiDAF(**words, units=3),
        "Coreference": CoreferenceModel(**words, units=3, mention_loss=1.0),
    }
    for title, model in models.items():
        export_task(model, tmp_path / title, check=False)
    folders = {title: tmp_path / title for title in models}
    with serve(folders, port=0, rest_port=0) as server:
        page = TaskPage(tab, server.rest_port)
        for title in models:
            page.open(model=title)
            assert (page.texts("h1"), page.message()) == ([title], None)
    assert_no_errors(tab, server.rest_port)


def test_selecting_another_model_changes_the_form_and_keeps_texts(page):
    page.open(model="tags", sentence=SENTENCE)
    page.select("bilm")
    assert page.texts("h1") == ["Tokens and their neighbors"]
    assert page.texts("#maps h3 code") == ["word_emb", "elmo"]
    assert not page.tab.evaluate("document.querySelector('#prediction').checkVisibility()")
    page.select("roles")
    assert page.texts("h1") == ["Semantic roles"]
    assert page.labelled() == [(token, None) for token in SENTENCE.split()]


def test_an_unknown_kind_of_model_is_reported(page):
    page.open(model="other")
    assert page.message() == (
        "This page cannot show the model other. It shows biLMs and task models that elmo_tf "
        "exported. The signatures of this model: double."
    )
    assert not page.tab.evaluate("document.querySelector('#form').checkVisibility()")
    page.select("label")
    assert page.message() is None
    assert page.tab.evaluate("document.querySelector('#form').checkVisibility()")


def test_the_servers_error_replaces_old_results(page):
    page.open(model="tags", sentence=SENTENCE)
    page.tab.evaluate("document.querySelector('#sentence').value = '\\ud800'")
    page.tab.click("document.querySelector('#compare')")
    page.wait()
    assert page.message().startswith("The server rejected the request: A string of strings is not")
    assert not page.tab.evaluate("document.querySelector('#results').checkVisibility()")
