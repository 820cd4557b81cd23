"""Evaluation of biLMs: perplexity, probabilities of sentences and tokens, neighbors in context."""

from elmo_tf.evaluation.occurrences import Occurrence as Occurrence
from elmo_tf.evaluation.occurrences import OccurrenceIndex as OccurrenceIndex
from elmo_tf.evaluation.occurrences import build_occurrence_index as build_occurrence_index
from elmo_tf.evaluation.perplexity import Perplexity as Perplexity
from elmo_tf.evaluation.perplexity import perplexity as perplexity
from elmo_tf.evaluation.probing import ProbeReport as ProbeReport
from elmo_tf.evaluation.probing import probe as probe
from elmo_tf.evaluation.scoring import SentenceScore as SentenceScore
from elmo_tf.evaluation.scoring import Substitute as Substitute
from elmo_tf.evaluation.scoring import sentence_scores as sentence_scores
from elmo_tf.evaluation.scoring import sentence_substitutes as sentence_substitutes
from elmo_tf.evaluation.scoring import substitutes as substitutes
from elmo_tf.evaluation.sense_corpus import SenseCorpus as SenseCorpus
from elmo_tf.evaluation.sense_corpus import SenseInventory as SenseInventory
from elmo_tf.evaluation.senses import SenseResults as SenseResults
from elmo_tf.evaluation.senses import SenseScore as SenseScore
from elmo_tf.evaluation.senses import SensesReport as SensesReport
from elmo_tf.evaluation.senses import evaluate_senses as evaluate_senses
from elmo_tf.evaluation.senses import sense_scores as sense_scores
