"""Reading and writing checkpoints: a table of names, and one loader that walks it."""

from elmo_tf.checkpoints.load import load_bilm as load_bilm
from elmo_tf.checkpoints.save import save_bilm as save_bilm
