"""The server's page in a browser, and models whose predictions are known."""

import json
import urllib.request
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest
import tensorflow as tf

import browser

IN_BROWSER = [
    pytest.mark.more,
    pytest.mark.skipif(
        browser.CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
    ),
]

FIRST = "They sat on the bank ."
SECOND = "A bank lends the bank money"
SENTENCE = "The old cat gave mice cheese ."
ROLES = [("The old cat", "ARG0"), ("gave", "V"), ("mice cheese", "ARG1"), (".", None)]
DOCUMENT = "Ann saw her sister .\n\nShe waved ."
MENTIONS = [(0, 0, 0), (2, 3, 1), (2, 2, 0), (5, 5, 1), (-1, -1, -1)]
MARKUP = '<img/src=x/onerror="alert(1)"> </bdi><script>alert(2)</script> &amp;'
MINUS = "\N{MINUS SIGN}"


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


def propositions(strings):
    """Predicates are `gave`, and the first token if it is `Old`; only the predicate has a role."""
    tokens = tf.strings.split(strings)[:, :4].to_tensor("", shape=(None, 4))
    has = tf.stack([tokens[:, 0] == "Old", tokens[:, 3] == "gave"], axis=1)
    tags = ["B-V O O O O O O", "B-ARG0 I-ARG0 I-ARG0 B-V B-ARG1 I-ARG1 O"]
    return {"predicate": tf.where(has, [0, 3], -1), "roles": tf.where(has, tags, "")}


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


STRINGS = {"strings": tf.string}
MODELS = {
    "tags": {"default": (tags, STRINGS)},
    "label": {"default": (lambda strings: label(strings=strings), STRINGS)},
    "pair": {
        "default": (lambda strings: label(strings=strings), STRINGS),
        "pair": (label, {"premise": tf.string, "hypothesis": tf.string}),
    },
    "roles": {"default": (tags, STRINGS), "roles": (roles, {**STRINGS, "predicate": tf.int32})},
    "plain": {
        "default": (tags, STRINGS),
        "roles": (roles, {**STRINGS, "predicate": tf.int32}),
        "propositions": (propositions, STRINGS),
    },
    "answer": {"pair": (answer, {"passage": tf.string, "question": tf.string})},
    "coref": {"default": (mentions, STRINGS)},
    "other": {"double": (lambda x: {"y": 2 * x}, {"x": tf.float32})},
}


def save(directory, signatures):
    """Writes a model; a signature is a function and the names and dtypes of its inputs."""
    module, functions = tf.Module(), {}
    for name, (function, dtypes) in signatures.items():
        specs = {key: tf.TensorSpec([None], dtype, key) for key, dtype in dtypes.items()}
        functions[name] = tf.function(function, autograph=False).get_concrete_function(**specs)
    module.functions = functions
    tf.saved_model.save(module, str(directory / "1"), functions)
    return directory


def assert_no_errors(tab):
    """Checks that there were no requests to other hosts, script errors or policy violations."""
    for name, event in tab.events:
        if name == "Network.requestWillBeSent":
            assert event["request"]["url"].startswith("http://127.0.0.1:")
        assert name not in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        assert name != "Runtime.consoleAPICalled"
        if name == "Log.entryAdded":  # the browser logs error answers too
            assert event["entry"]["source"] == "network"
    tab.events.clear()


class Page:
    """The page in a tab: a user's actions, and the visible texts."""

    def __init__(self, tab, port_of):
        self.tab = tab
        self.port_of = port_of

    def open(self, model="bilm", **state):
        self.address = f"http://127.0.0.1:{self.port_of(model)}/"
        self.tab.open(f"{self.address}#{urlencode(state)}")
        self.wait()

    def wait(self):
        self.tab.wait_for("document.body?.ariaBusy === 'false'")

    def enter(self, **texts):
        """Types into the fields of the form and sends it."""
        for name, text in texts.items():
            self.tab.evaluate(f"document.querySelector('#{name}').select()")
            self.tab.type(text)
        self.choose("#action")

    def choose(self, selector, position=0):
        """Clicks on a button."""
        self.tab.click(f"document.querySelectorAll('{selector}')[{position}]")
        self.wait()

    def texts(self, selector):
        query = f"document.querySelectorAll({json.dumps(selector)})"
        return self.tab.evaluate(f"[...{query}].map((one) => one.textContent)")

    def message(self):
        return self.tab.evaluate("document.querySelector('#message:not([hidden])')?.textContent")

    def is_visible(self, selector):
        return self.tab.evaluate(f"document.querySelector('{selector}').checkVisibility()")

    def state(self):
        return parse_qs(self.tab.evaluate("location.hash.slice(1)"))

    def tokens(self):
        return self.texts(".tokens bdi")

    def selected(self):
        return self.texts(".tokens [aria-pressed=true]")

    def layers(self):
        return self.texts(".map code")

    def labeled(self):
        """Returns [(its tokens, its label or None), …] of spans of tokens."""
        tokens = "[...item.querySelectorAll('bdi')].map((one) => one.textContent)"
        item = f"[{tokens}, item.querySelector('b')?.textContent ?? null]"
        items = self.tab.evaluate(
            f"[...document.querySelectorAll('.labeled li')].map((item) => {item})"
        )
        return [(" ".join(tokens), label) for tokens, label in items]


def vectors(page, sentence):
    """Returns {layer: (token, feature)} from the server, in the order of the layers."""
    inputs = {"tokens": [sentence.split()], "sequence_len": [len(sentence.split())]}
    body = json.dumps({"signature_name": "tokens", "inputs": inputs}).encode()
    with urllib.request.urlopen(f"{page.address}v1/models/a%20model%2F1:predict", body) as response:
        outputs = json.load(response)["outputs"]
    lstms = sorted(name for name in outputs if name.startswith("lstm_outputs"))
    return {name: np.array(outputs[name][0]) for name in ("word_emb", *lstms, "elmo")}


def cosines(a, b):
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return a @ b.T / lengths
