"""Word sense disambiguation by the nearest sense vector in each layer."""

from elmo_tf.evaluation.senses.disambiguation import evaluate_senses as evaluate_senses
from elmo_tf.evaluation.senses.inventory import SenseInventory as SenseInventory
from elmo_tf.evaluation.senses.scoring import SenseResults as SenseResults
from elmo_tf.evaluation.senses.scoring import SenseScore as SenseScore
from elmo_tf.evaluation.senses.scoring import SensesReport as SensesReport
from elmo_tf.evaluation.senses.scoring import sense_score as sense_score
from elmo_tf.evaluation.senses.scoring import sense_scores as sense_scores
from elmo_tf.evaluation.senses.sense_corpus import SenseCorpus as SenseCorpus
