import json
import json.decoder

import pytest

from elmo_tf.lazy import lazy_names

get_attribute, names = lazy_names("json", {"decoder": "json.decoder", "loads": "json"})


def test_a_name_is_taken_from_its_home():
    assert get_attribute("loads") is json.loads


def test_a_module_stands_for_itself():
    assert get_attribute("decoder") is json.decoder


def test_names_are_listed_in_order():
    assert names() == ["decoder", "loads"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'nothing'"):
        get_attribute("nothing")
