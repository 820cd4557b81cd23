"""Models composed of the layers."""

from elmo_tf.models.bilm import BiLM as BiLM
from elmo_tf.models.elmo import Elmo as Elmo
