"""What a biLM knows: perplexity, probabilities of sentences and tokens, neighbours in context."""

from elmo_tf.evaluation.neighbours import Occurrences as Occurrences
from elmo_tf.evaluation.perplexity import Perplexity as Perplexity
from elmo_tf.evaluation.perplexity import perplexity as perplexity
from elmo_tf.evaluation.scoring import SentenceScore as SentenceScore
from elmo_tf.evaluation.scoring import SentenceScorer as SentenceScorer
from elmo_tf.evaluation.scoring import sentence_scores as sentence_scores
from elmo_tf.evaluation.substitution import Substitute as Substitute
from elmo_tf.evaluation.substitution import substitutes as substitutes
