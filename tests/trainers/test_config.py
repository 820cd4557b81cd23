import dataclasses
import json

import pytest

from elmo_tf import BiLMConfig
from elmo_tf.trainers import PretrainConfig
from elmo_tf.trainers.inputs import default_learning_rate

NEEDED = {"corpus": "text.txt", "vocab": "vocab.txt", "workdir": "run"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "tiny", "options": {"lstm": {}}}, "`preset` and `options` exclude each other"),
        ({"weight_decay": 0.1, "optimizer": "adagrad"}, "`weight_decay` is for the optimizer"),
        ({"tie_softmax": True}, "`tie_softmax` needs `word_input`"),
        ({"new_corpus": True}, "`new_corpus` needs `resume`"),
    ],
)
def test_an_error_names_the_invalid_setting(change, message):
    with pytest.raises(ValueError, match=message):
        PretrainConfig(**{**NEEDED, **change})


TINY, MEDIUM = BiLMConfig.preset("tiny"), BiLMConfig.preset("medium")
WORDS = {"preset": "tiny", "word_input": True}


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, BiLMConfig.preset("small")),
        ({"options": MEDIUM.to_options()}, MEDIUM),
        ({"options": "options.json"}, MEDIUM),
        (WORDS, BiLMConfig(None, TINY.lstm, 9)),
        ({**WORDS, "tie_softmax": True}, BiLMConfig(None, TINY.lstm, 9, tie_softmax=True)),
        (
            {"preset": "tiny", "forward_only": True},
            BiLMConfig(TINY.char_cnn, TINY.lstm, bidirectional=False),
        ),
    ],
)
def test_the_shape_depends_on_preset_options_and_kind_of_input(
    tmp_path, monkeypatch, settings, shape
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "options.json").write_text(json.dumps(MEDIUM.to_options()))
    assert PretrainConfig(**NEEDED, **settings).bilm_config(9) == shape


def test_a_recipe_sets_the_defaults_of_other_settings():
    config = PretrainConfig(**NEEDED, recipe="paper", batch_size=7)
    assert (config.batch_size, config.optimizer, config.dropout) == (7, "adagrad", 0.1)


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, (0.01, 0.005, 0.005, 0.002)),
        ({"start_from": "small-en"}, (0.002,) * 4),
        ({"recipe": "paper"}, (0.2,) * 4),
    ],
)
def test_the_default_learning_rate_depends_on_optimizer_cells_and_steps(settings, rates):
    config = PretrainConfig(**NEEDED, **settings)
    sizes = ((128, 2_500), (128, 10_000), (400, 5), (2048, 5))
    assert [default_learning_rate(config, *size) for size in sizes] == pytest.approx(rates)


def test_a_run_is_not_resumed_with_another_seed_optimizer_or_shape(tmp_path):
    before = PretrainConfig(**NEEDED, preset="tiny").as_json(options=TINY.to_options())

    def check(shape=TINY, **changes):
        now = PretrainConfig(**NEEDED, **changes).as_json(options=shape.to_options())
        PretrainConfig.check_resumed(now, before, tmp_path)

    check(steps=7, save_every=3, eval_every=2, resume=True, valid="v.txt", num_sampled=4)
    for name, value in (("seed", 5), ("batch_size", 3), ("dropout", 0.5), ("optimizer", "adagrad")):
        with pytest.raises(ValueError, match=rf"Cannot resume with other settings.*{name} was"):
            check(**{name: value})
    with pytest.raises(ValueError, match=r"other settings.*options was .*'dim': \d+"):
        check(MEDIUM)


def test_a_resumed_run_has_the_settings_and_shape_of_its_record(tmp_path):
    """The directory has moved, and `overwrite` is not kept."""
    settings = {"word_input": True, "valid": "v.txt", "batch_size": 3, "steps": 7}
    settings |= {"options": MEDIUM.to_options(), "overwrite": True}
    begun = PretrainConfig(**{**NEEDED, **settings})
    shape = begun.bilm_config(9)
    record = {"settings": begun.as_json(options=shape.to_options())}
    (tmp_path / "training.json").write_text(json.dumps(record))

    resumed = PretrainConfig(workdir=tmp_path, resume=True)

    assert resumed.bilm_config(9) == shape
    changes = {"resume": True, "overwrite": False, "options": resumed.options}
    assert resumed == dataclasses.replace(begun, workdir=tmp_path, **changes)
    other = PretrainConfig(workdir=tmp_path, preset="tiny", resume=True)
    assert (other.preset, other.options) == ("tiny", None)
    assert resumed.reset_states == 0.02
    del record["settings"]["reset_states"]  # as in earlier versions, which reset none
    (tmp_path / "training.json").write_text(json.dumps(record))
    assert PretrainConfig(workdir=tmp_path, resume=True).reset_states == 0
