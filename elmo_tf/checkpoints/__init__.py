"""Loading and saving of checkpoints in all supported formats."""

from elmo_tf.checkpoints.load import load_bilm as load_bilm
from elmo_tf.checkpoints.save import save_bilm as save_bilm
