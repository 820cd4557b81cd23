"""The Keras layers of a biLM."""

from elmo_tf.layers.char_cnn import CharCNN as CharCNN
from elmo_tf.layers.highway import HighwayStack as HighwayStack
from elmo_tf.layers.projected_lstm import ProjectedLSTM as ProjectedLSTM
from elmo_tf.layers.projected_lstm import ProjectedLSTMCell as ProjectedLSTMCell
from elmo_tf.layers.sampled_softmax import SampledSoftmax as SampledSoftmax
from elmo_tf.layers.scalar_mix import MeanOverTokens as MeanOverTokens
from elmo_tf.layers.scalar_mix import ScalarMix as ScalarMix
