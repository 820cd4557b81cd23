"""Arguments that the constructors of task models and their layers refuse."""

import pytest

from elmo_tf import Elmo
from elmo_tf.tasks import BiLSTMClassifier, CharacterEmbedding, WordEmbedding
from task_models import KINDS, embeddings, new_model

INTEGERS = {
    "bcn": ["reduction"],
    "bidaf": ["units", "max_answer"],
    "srl": ["units", "num_layers", "predicate_dim"],
    "coref": ["units", "hidden_units", "feature_dim", "max_width", "max_antecedents"],
}
RATES = {
    "tagger": ["dropout"],
    "bcn": ["dropout", "maxout_dropout"],
    "bidaf": ["dropout"],
    "srl": ["dropout"],
    "coref": ["dropout", "lexical_dropout"],
}
WRONG = [
    *((kind, {name: 0}, "integer of at least 1") for kind in INTEGERS for name in INTEGERS[kind]),
    *((kind, {name: 1.0}, r"number >= 0 and < 1") for kind in RATES for name in RATES[kind]),
    ("classifier", {"labels": []}, "`labels` is empty"),
    ("classifier", {"labels": ["a", "b", "a"]}, "`labels` has duplicates: a, b, a"),
    ("classifier", {"labels": ["caf\udce9"]}, r"A label is not valid UTF-8: 'caf\\udce9'"),
    ("classifier", {"placement": "both"}, "placement 'both' needs an `elmo`. Received: None"),
    ("classifier", {"placement": "top"}, "`placement` must be one of input, output, both, none"),
    ("tagger", {"units": 5}, "`units` must have one width per biLSTM"),
    ("tagger", {"units": ()}, "`units` must have one width per biLSTM"),
    ("tagger", {"labels": ["O", "X-PER"]}, "'X-PER' is not a tag of BIO"),
    (
        "tagger",
        {"labels": ["B-X", "L-X"], "scheme": "BIOUL"},
        "no sequence of 1 tags. Is the tag O",
    ),
    ("srl", {"labels": ["O", "A0"]}, "'A0' is not a tag of BIO"),
    ("srl", {"labels": ["I-A0"]}, "allow no sequence of 1 tags. Is the tag O"),
    ("coref", {"placement": "output"}, "`placement` must be one of input, none"),
    ("coref", {"span_ratio": 0.0}, r"`span_ratio` must be a number above 0. Received: 0\.0"),
    ("coref", {"mention_loss": -1}, "`mention_loss` must be a number >= 0. Received: -1"),
    ("coref", {"genres": "news"}, "`genres` must be a list of names. Received: 'news'"),
    ("coref", {"genres": ["a", ""]}, "`genres` must be a list of names"),
    ("coref", {"genres": ["a", "b", "a"]}, "`genres` has duplicates: a, b, a"),
    ("coref", {"genres": ["caf\udce9"]}, "A genre is not valid UTF-8"),
]


@pytest.mark.parametrize(("kind", "wrong", "message"), WRONG)
def test_invalid_arguments_of_models_are_refused(kind, wrong, message):
    model_class, settings = KINDS[kind]
    name = next(iter(wrong))

    with pytest.raises(ValueError, match=message) as error:
        model_class(embeddings=embeddings(), **{**settings, **wrong})

    if message.startswith(("integer", "number")):
        assert f"`{name}` must be a" in str(error.value)


def test_a_model_has_an_input_with_the_right_number_of_mixes(bilm):
    with pytest.raises(TypeError, match="`labels` must be a list of strings"):
        new_model("classifier", labels="ab")
    with pytest.raises(TypeError, match="`embeddings` must be a list of layers"):
        BiLSTMClassifier(["a"], WordEmbedding(["the"], 3))
    with pytest.raises(TypeError, match=r"must be an Elmo, such as Elmo\.from_pretrained"):
        BiLSTMClassifier(["a"], elmo="small-en")
    with pytest.raises(ValueError, match="The model has no input: pass `embeddings`"):
        BiLSTMClassifier(["a"], elmo=Elmo(bilm), placement="output")
    with pytest.raises(ValueError, match=r"num_mixes=1 for placement 'input'. Received: 2"):
        BiLSTMClassifier(["a"], elmo=Elmo(bilm, num_mixes=2))


@pytest.mark.parametrize(
    ("layer_class", "arguments", "message"),
    [
        (WordEmbedding, ([], 3), "`words` is empty"),
        (WordEmbedding, (["a"], 0), "`dim` must be an integer of at least 1"),
        (WordEmbedding, (["a"], 3, False, 2), "`num_trained` must be at most the number of words"),
        (
            CharacterEmbedding,
            (((5, 2),), 16, "relu", 4),
            "`max_chars` must be an integer of at lea",
        ),
    ],
)
def test_invalid_arguments_of_embeddings_are_refused(layer_class, arguments, message):
    with pytest.raises(ValueError, match=message):
        layer_class(*arguments)
