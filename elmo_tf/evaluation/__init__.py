"""What a biLM knows: perplexity of held-out text, and neighbours of words in context."""

from elmo_tf.evaluation.neighbours import Occurrences as Occurrences
from elmo_tf.evaluation.perplexity import Perplexity as Perplexity
from elmo_tf.evaluation.perplexity import perplexity as perplexity
