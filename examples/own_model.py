"""Uses ELMo as a layer of your own Keras model, functional and subclassed.

    python examples/own_model.py

Prints the loss of both models before and after training.
"""

import argparse

import keras
import tensorflow as tf

from elmo_tf import Elmo

SENTENCES = ["what a good film", "a bad film indeed", "I liked it", "I did not like it"]
LABELS = [1, 0, 1, 0]


def functional(elmo: Elmo) -> keras.Model:
    """Returns a model from strings (batch,) to probabilities (batch, 1)."""
    sentences = keras.Input((), dtype="string")
    hidden = keras.layers.Bidirectional(keras.layers.LSTM(16))(elmo(sentences))
    return keras.Model(sentences, keras.layers.Dense(1, activation="sigmoid")(hidden))


@keras.saving.register_keras_serializable(package="examples")
class Subclassed(keras.Model):
    """The same model as a class."""

    def __init__(self, elmo: Elmo, **kwargs):
        super().__init__(**kwargs)
        self.elmo = elmo
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(16))
        self.classify = keras.layers.Dense(1, activation="sigmoid")

    def call(self, sentences, training=False):
        """Maps strings (batch,) to probabilities, float (batch, 1)."""
        vectors = self.elmo(sentences, training=training)  # (batch, token, feature), with a mask
        return self.classify(self.lstm(vectors))


def main() -> None:
    """Trains both models on four sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=20, help="epochs (default: 20)")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    sentences, labels = tf.constant(SENTENCES), tf.constant(LABELS)
    for new_model in (functional, Subclassed):
        model = new_model(Elmo.from_pretrained(arguments.elmo))
        model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
        before = model.evaluate(sentences, labels, verbose=0)
        model.fit(sentences, labels, epochs=arguments.epochs, verbose=0)
        after = model.evaluate(sentences, labels, verbose=0)
        print(f"{new_model.__name__}: loss {before:.3f} → {after:.3f}")


if __name__ == "__main__":
    main()
