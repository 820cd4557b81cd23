import numpy as np
import pytest

from elmo_tf import BiLM, BiLMConfig
from elmo_tf.checkpoints.names import published_rules, weight_rules
from elmo_tf.checkpoints.weight_files import variables_by_path
from reference import checkpoint

SHAPES = [
    {},
    {"n_highway": 0},
    {"dim": 8, "projection_dim": 8},
    {"filters": ((1, 2), (3, 4))},
    {"n_layers": 3},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_table_names_every_dataset_and_every_variable_once(shape):
    options = checkpoint.options(**shape)
    config = BiLMConfig.from_options(options)

    rules = published_rules(config)

    datasets = [rule.dataset for rule in rules]
    assert sorted(datasets) == sorted(checkpoint.shapes(options))
    variables = [name for rule in rules for name in rule.variables]
    stored = [name for name, v in variables_by_path(BiLM(config)).items() if v.trainable]
    assert sorted(variables) == sorted(stored)


def test_what_other_implementations_do_not_read_may_be_left_out(options):
    config = BiLMConfig.from_options(options)
    rules = weight_rules(config)

    assert len(rules) == len(published_rules(config)) + 1
    assert [rule.dataset for rule in rules if rule.is_optional] == ["initial_state"]


def test_forward_alone_has_the_rules_of_the_first_direction(options, weights):
    both = published_rules(BiLMConfig.from_options(options))
    config = BiLMConfig.from_options({**options, "bidirectional": False})

    rules = published_rules(config)

    datasets = [rule.dataset for rule in rules]

    assert datasets == [rule.dataset for rule in both if not rule.dataset.startswith("RNN_1")]
    variables = [name for rule in rules for name in rule.variables]
    stored = [name for name, v in variables_by_path(BiLM(config)).items() if v.trainable]
    assert sorted(variables) == sorted(stored)


def test_what_is_read_is_written_back_the_same(options, weights):
    for rule in published_rules(BiLMConfig.from_options(options)):
        array = weights[rule.dataset]

        parts = rule.from_file(array)

        assert len(parts) == len(rule.variables)
        np.testing.assert_array_equal(rule.to_file(parts), array)


def test_a_bilm_without_characters_has_no_rule_for_them(options):
    lstm = BiLMConfig.from_options(options).lstm

    rules = published_rules(BiLMConfig(None, lstm, num_tokens=9))

    assert {rule.dataset.split("/")[0] for rule in rules} == {"RNN_0", "RNN_1"}
