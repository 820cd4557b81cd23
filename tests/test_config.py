import functools
import json
import math

import pytest

from elmo_tf.config import BiLMConfig, CharCNNConfig, LexiconConfig, LSTMConfig
from reference import checkpoint

# The options of the published small model, as the original trainer writes them.
PUBLISHED = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 128,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 1024,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 1,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def changed(place, value):
    """The published options with one value changed, or removed if it is `...`."""
    options = json.loads(json.dumps(PUBLISHED))
    *outer, name = place.split(".")
    inner = functools.reduce(dict.__getitem__, outer, options)
    if value is ...:
        del inner[name]
    else:
        inner[name] = value
    return options


@pytest.mark.parametrize(
    ("name", "millions"), [("small", 13.6), ("medium", 28.0), ("original", 93.6)]
)
def test_presets_have_the_published_sizes(name, millions):
    shapes = checkpoint.shapes(BiLMConfig.preset(name).to_options())
    assert round(sum(map(math.prod, shapes.values())) / 1e6, 1) == millions


def test_the_small_preset_is_the_published_file():
    assert BiLMConfig.from_options(PUBLISHED) == BiLMConfig.preset("small")
    assert BiLMConfig.preset("small").to_options() == PUBLISHED


WORDS = {"char_cnn": None, "lstm": LSTMConfig(7, 5, cell_clip=None), "num_tokens": 11}


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        *((BiLMConfig.preset(name), {"char_cnn"}) for name in ("tiny", "medium", "original")),
        (BiLMConfig(**WORDS), {"n_tokens_vocab"}),
        (BiLMConfig(**WORDS, bidirectional=False), {"n_tokens_vocab", "bidirectional"}),
        (BiLMConfig(**WORDS, tie_softmax=True), {"n_tokens_vocab", "share_embedding_softmax"}),
        (BiLMConfig(CharCNNConfig([[1, 2]], lexicon=LexiconConfig(9, 7, 5))), {"char_cnn"}),
    ],
)
def test_options_round_trip_through_json(config, keys, tmp_path):
    path = tmp_path / "options.json"
    path.write_text(json.dumps(config.to_options()))
    assert BiLMConfig.from_options(path) == BiLMConfig.from_options(str(path)) == config
    path.write_text(json.dumps(config.to_options()), encoding="utf-8-sig")  # Windows editors
    assert BiLMConfig.from_options(path) == config
    assert config.to_options().keys() == keys | {"lstm"}


@pytest.mark.parametrize(
    "options",
    [
        {"bidirectional": True, "share_embedding_softmax": False},
        {"char_cnn": {**PUBLISHED["char_cnn"], "n_characters": 261}},
    ],
)
def test_options_that_change_no_vectors_are_not_kept(options):
    assert BiLMConfig.from_options({**PUBLISHED, **options}).to_options() == PUBLISHED


def test_unknown_options_are_ignored_with_one_warning(caplog):
    options = {**changed("lstm.reverse", True), "_comment": "", "optimizer": None}
    options["char_cnn"] |= {"n_highway": None, "embedding": {"dim": 16, "l2": 0}}

    for _ in range(2):
        config = BiLMConfig.from_options(options)
    assert config.to_options() == changed("char_cnn.n_highway", 0)
    options["char_cnn"]["lexicon"] = {"n_characters": 9, "words": 3}
    assert BiLMConfig.from_options(options).char_cnn.lexicon == LexiconConfig(9)
    for keys in ("'reverse'", "'_comment', 'optimizer'", "'words'"):
        assert caplog.text.count(f"Unknown keys of options.json are ignored: {keys}.") == 1


def test_missing_options_get_the_defaults_of_the_original_code():
    options = {
        "lstm": {"dim": 8, "projection_dim": 4},
        "char_cnn": {"embedding": {"dim": 3}, "filters": [[1, 2]]},
    }
    config = BiLMConfig.from_options(options)
    assert config.lstm == LSTMConfig(8, 4, 1, None, None, False)
    assert config.char_cnn == CharCNNConfig(((1, 2),), 3, num_highway=0)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("lstm.dim", 0, r"`lstm.dim`: Input should be greater than or equal to 1. Received: 0"),
        ("lstm.dim", ..., r"`lstm.dim`: Input should be a valid integer. Received: None"),
        ("lstm.projection_dim", 1025, r"must be at most `dim` \(1024\). Received: 1025"),
        ("lstm.n_layers", True, r"`lstm.n_layers`: Input should be a valid integer. Rec.*True"),
        ("lstm.cell_clip", 0, r"`lstm.cell_clip`: Input should be greater than 0. Received: 0"),
        ("char_cnn", ..., r"`n_tokens_vocab` is missing"),
        ("char_cnn.filters", [[0, 2]], r"`char_cnn.filters.0.0`: Input should be greater than or"),
        ("char_cnn.embedding", 16, r"`char_cnn`: `embedding` must be an object with `dim`"),
        ("char_cnn.n_characters", 260, r"`char_cnn`: `n_characters` must be 261 or 262.*260"),
        ("char_cnn.max_characters_per_token", 6, r"at least 7, the width of the widest filter"),
        ("char_cnn.lexicon", {"n_words": 3}, r"`char_cnn.lexicon.n_characters` is missing"),
        ("share_embedding_softmax", True, r"`share_embedding_softmax` and `char_cnn`"),
    ],
)
def test_errors_name_the_option_its_value_and_allowed_values(tmp_path, place, value, message):
    options = changed(place, value)
    path = tmp_path / "options.json"
    path.write_text(json.dumps(options))
    with pytest.raises(ValueError, match=message):
        BiLMConfig.from_options(options)
    with pytest.raises(ValueError, match=rf"options\.json: .*{message}"):
        BiLMConfig.from_options(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"lstm": ', r"options\.json: Invalid JSON: "),
        (b"[1]", r"options\.json: Input should be an object\. Received: \[1\]"),
    ],
)
def test_a_file_that_is_no_json_object_is_named(tmp_path, content, message):
    path = tmp_path / "options.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        BiLMConfig.from_options(path)


def test_presets_and_parts_must_be_known():
    with pytest.raises(ValueError, match=r"one of tiny, small, medium, original. Received: 'big'"):
        BiLMConfig.preset("big")
    with pytest.raises(ValueError, match=r"`lstm`: Input should be an instance of LSTMConfig"):
        BiLMConfig(lstm={})
