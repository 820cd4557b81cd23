import json

import pytest

from elmo_tf.config import BiLMConfig, CharCNNConfig, LSTMConfig

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
    inner = options
    for part in outer:
        inner = inner[part]
    if value is ...:
        del inner[name]
    else:
        inner[name] = value
    return options


def num_parameters(config):
    """The number of parameters, from the shapes of the published files."""
    cnn, lstm = config.char_cnn, config.lstm
    features = sum(count for _, count in cnn.filters)
    count = 261 * cnn.embedding_dim
    count += sum(width * cnn.embedding_dim * n + n for width, n in cnn.filters)
    count += cnn.num_highway * 2 * (features + 1) * features
    count += (features + 1) * lstm.projection_dim
    cell = (2 * lstm.projection_dim + 1) * 4 * lstm.dim + lstm.dim * lstm.projection_dim
    return count + 2 * lstm.num_layers * cell


@pytest.mark.parametrize(
    ("name", "millions"), [("small", 13.6), ("medium", 28.0), ("original", 93.6)]
)
def test_presets_have_the_published_sizes(name, millions):
    assert round(num_parameters(BiLMConfig.preset(name)) / 1e6, 1) == millions


def test_the_small_preset_is_the_published_file():
    assert BiLMConfig.from_options(PUBLISHED) == BiLMConfig.preset("small")
    assert BiLMConfig.preset("small").to_options() == PUBLISHED


@pytest.mark.parametrize("name", ["tiny", "small", "medium", "original"])
def test_options_round_trip_through_json(name, tmp_path):
    path = tmp_path / "options.json"
    path.write_text(json.dumps(BiLMConfig.preset(name).to_options()))

    assert BiLMConfig.from_options(path) == BiLMConfig.preset(name)
    assert BiLMConfig.from_options(str(path)) == BiLMConfig.preset(name)


def test_options_without_characters_round_trip():
    config = BiLMConfig(None, LSTMConfig(dim=7, projection_dim=5, cell_clip=None), num_tokens=11)

    assert BiLMConfig.from_options(config.to_options()) == config
    assert "char_cnn" not in config.to_options()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("tie_softmax", [True, False])
def test_directions_and_a_tied_softmax_round_trip(bidirectional, tie_softmax):
    lstm = LSTMConfig(dim=7, projection_dim=5)
    config = BiLMConfig(None, lstm, 11, bidirectional=bidirectional, tie_softmax=tie_softmax)

    options = config.to_options()

    assert BiLMConfig.from_options(options) == config
    written = {key: options[key] for key in options.keys() - {"lstm", "n_tokens_vocab"}}
    expected = {} if bidirectional else {"bidirectional": False}
    assert written == expected | ({"share_embedding_softmax": True} if tie_softmax else {})


def test_default_options_may_be_given_explicitly():
    options = {**PUBLISHED, "bidirectional": True, "share_embedding_softmax": False}

    assert BiLMConfig.from_options(options).to_options() == PUBLISHED


@pytest.mark.parametrize("count", [261, 262])
def test_character_counts_261_and_262_are_equivalent(count):
    options = changed("char_cnn.n_characters", count)

    assert BiLMConfig.from_options(options) == BiLMConfig.preset("small")
    assert BiLMConfig.from_options(options).to_options()["char_cnn"]["n_characters"] == 262


def test_training_settings_in_options_are_ignored():
    options = {**PUBLISHED, "batch_size": 128, "unroll_steps": 20, "n_tokens_vocab": 793471}

    config = BiLMConfig.from_options(options)

    assert config == BiLMConfig(
        BiLMConfig.preset("small").char_cnn, BiLMConfig.preset("small").lstm, num_tokens=793471
    )


def test_missing_options_get_the_defaults_of_the_original_code():
    options = {
        "lstm": {"dim": 8, "projection_dim": 4},
        "char_cnn": {"embedding": {"dim": 3}, "filters": [[1, 2]]},
    }

    config = BiLMConfig.from_options(options)

    assert config.lstm == LSTMConfig(8, 4, 1, None, None, False)
    assert config.char_cnn == CharCNNConfig(((1, 2),), 3, num_highway=0)


def test_widths_are_derived_from_the_filters():
    config = CharCNNConfig(filters=[[1, 2], [4, 3]])

    assert config.max_width == 4
    assert config.num_filters == 5
    assert config.filters == ((1, 2), (4, 3))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("lstm.dim", 0, r"`lstm.dim` must be an integer of at least 1. Received: 0"),
        ("lstm.dim", ..., r"`lstm.dim` is missing"),
        ("lstm.projection_dim", 1025, r"must be at most `lstm.dim` \(1024\). Received: 1025"),
        ("lstm.n_layers", 0, r"`lstm.n_layers` must be an integer of at least 1. Received: 0"),
        ("lstm.cell_clip", 0, r"`lstm.cell_clip` must be a number above 0 or null. Received: 0"),
        ("lstm.proj_clip", float("inf"), r"`lstm.proj_clip` must be a number above 0 or null"),
        ("lstm.projection_dims", 3, r"Unknown key `projection_dims` in `lstm`.*`projection_dim`\?"),
        ("lstm.zzz", 3, r"Unknown key `zzz` in `lstm`. Allowed: cell_clip, dim,"),
        ("lstm", 3, r"`lstm` must be an object of names and values. Received: 3"),
        ("lstm", ..., r"`options.lstm` is missing"),
        ("char_cnn", None, r"`char_cnn` must be an object of names and values. Received: None"),
        ("char_cnn", ..., r"`n_tokens_vocab` is missing: without `char_cnn`"),
        ("char_cnn.filters", [], r"`char_cnn.filters` must be a list of pairs"),
        ("char_cnn.filters", [[0, 2]], r"`char_cnn.filters` must be a list of pairs"),
        ("char_cnn.embedding", 16, r"`char_cnn.embedding` must be an object"),
        ("char_cnn.embedding", {}, r"`char_cnn.embedding.dim` is missing"),
        ("char_cnn.embedding.din", 4, r"Unknown key `din` in `char_cnn.embedding`. Did you mean"),
        ("char_cnn.activation", "selu", r"`char_cnn.activation` must be one of relu, tanh"),
        ("char_cnn.n_characters", 260, r"`char_cnn.n_characters` must be 261 or 262.*260"),
        ("char_cnn.max_characters_per_token", 6, r"of at least 7, the width of the widest filter"),
        ("share_embedding_softmax", True, r"`share_embedding_softmax` requires a token embedding"),
        ("charcnn", {}, r"Unknown key `charcnn` in `options`. Did you mean `char_cnn`\?"),
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


def test_a_file_with_invalid_json_is_named(tmp_path):
    path = tmp_path / "options.json"
    path.write_text('{"lstm": ')

    with pytest.raises(ValueError, match=r"options\.json is not JSON: "):
        BiLMConfig.from_options(path)


def test_options_must_be_an_object(tmp_path):
    path = tmp_path / "options.json"
    path.write_text("[1]")

    with pytest.raises(ValueError, match=r"`options` must be an object.*Received: \[1\]"):
        BiLMConfig.from_options(path)


def test_the_error_for_an_unknown_preset_lists_all_presets():
    with pytest.raises(ValueError, match=r"one of tiny, small, medium, original. Received: 'big'"):
        BiLMConfig.preset("big")


def test_parts_must_be_configurations():
    with pytest.raises(ValueError, match="`lstm` must be an instance of LSTMConfig. Received: {}"):
        BiLMConfig(lstm={})


def test_max_chars_must_fit_the_word_boundaries():
    with pytest.raises(ValueError, match=r"`char_cnn.max_characters_per_token` .* at least 3"):
        CharCNNConfig(filters=((1, 2),), max_chars=2)
