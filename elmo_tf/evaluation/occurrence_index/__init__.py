"""An index of all tokens of a large text in context, for searches of nearest neighbors."""

from elmo_tf.evaluation.occurrence_index.building import (
    build_occurrence_index as build_occurrence_index,
)
from elmo_tf.evaluation.occurrence_index.searching import Occurrence as Occurrence
from elmo_tf.evaluation.occurrence_index.searching import OccurrenceIndex as OccurrenceIndex
