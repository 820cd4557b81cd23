"""Task models on top of a biLM: those of the ELMo paper, and tagging and classification."""

from elmo_tf.tasks.bcn import BCN as BCN
from elmo_tf.tasks.bidaf import BiDAF as BiDAF
from elmo_tf.tasks.bilstm import BiLSTM as BiLSTM
from elmo_tf.tasks.bilstm import BiRNN as BiRNN
from elmo_tf.tasks.bilstm_classifier import BiLSTMClassifier as BiLSTMClassifier
from elmo_tf.tasks.coreference.model import CoreferenceModel as CoreferenceModel
from elmo_tf.tasks.crf import CRF as CRF
from elmo_tf.tasks.crf_tagger import CRFTagger as CRFTagger
from elmo_tf.tasks.embeddings import CharacterEmbedding as CharacterEmbedding
from elmo_tf.tasks.embeddings import WordEmbedding as WordEmbedding
from elmo_tf.tasks.esim import ESIM as ESIM
from elmo_tf.tasks.maxout import Maxout as Maxout
from elmo_tf.tasks.srl_tagger import SRLTagger as SRLTagger
from elmo_tf.tasks.task_model import TaskModel as TaskModel
from elmo_tf.tasks.token_vectors import TokenVectors as TokenVectors
