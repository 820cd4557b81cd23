"""A model like those of TF Serving's examples."""

import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def half_plus_directory(tmp_path_factory):
    """Like TF Serving's examples: y = x / 2 + 2 and x / 2 + 3, in folders with leading zeros."""
    directory = tmp_path_factory.mktemp("half_plus")
    save_half_plus(2.0, directory / "00000123")
    save_half_plus(3.0, directory / "00000124")
    return directory


def save_half_plus(offset, path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        half = tf.compat.v1.get_variable("a", initializer=0.5, use_resource=False)
        x = tf.compat.v1.placeholder(tf.float32, [None], "x")
        y = tf.add(half * x, offset, "y")
        session.run(tf.compat.v1.global_variables_initializer())
        builder = tf.compat.v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            {"serving_default": tf.compat.v1.saved_model.predict_signature_def({"x": x}, {"y": y})},
        )
        builder.save()
