"""Ways to load an exported model; each returns a function that calls a signature."""

import tensorflow as tf


def asked_in_python(path):
    loaded = tf.saved_model.load(path)

    def ask(name, **inputs):
        outputs = loaded.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    return ask


def asked_in_a_session(path):
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def

    def ask(name, **inputs):
        feeds = {signatures[name].inputs[key].name: value for key, value in inputs.items()}
        return session.run(
            {key: info.name for key, info in signatures[name].outputs.items()}, feeds
        )

    return ask
