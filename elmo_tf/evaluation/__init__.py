"""Evaluation of biLMs: perplexity, probabilities, neighbors in context, tags and senses."""

from elmo_tf.evaluation.neighbors import Occurrence as Occurrence
from elmo_tf.evaluation.neighbors import distinct_sentences as distinct_sentences
from elmo_tf.evaluation.neighbors import nearest_tokens as nearest_tokens
from elmo_tf.evaluation.perplexity import Perplexity as Perplexity
from elmo_tf.evaluation.perplexity import perplexity as perplexity
from elmo_tf.evaluation.probing import probe as probe
from elmo_tf.evaluation.scoring import SentenceScore as SentenceScore
from elmo_tf.evaluation.scoring import Substitute as Substitute
from elmo_tf.evaluation.scoring import sentence_scores as sentence_scores
from elmo_tf.evaluation.scoring import substitutes as substitutes
from elmo_tf.evaluation.senses import evaluate_senses as evaluate_senses
from elmo_tf.evaluation.senses import read_inventory as read_inventory
from elmo_tf.evaluation.senses import read_sense_corpus as read_sense_corpus
