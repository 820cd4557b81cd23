"""Models composed of the layers: TokenEncoder, BiLM and Elmo."""

from elmo_tf.models.bilm import BiLM as BiLM
from elmo_tf.models.elmo import Elmo as Elmo
from elmo_tf.models.token_encoder import TokenEmbedding as TokenEmbedding
from elmo_tf.models.token_encoder import TokenEncoder as TokenEncoder
