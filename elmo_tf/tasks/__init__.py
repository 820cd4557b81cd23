"""Task models on top of a biLM: those of the ELMo paper, and tagging and classification."""

from elmo_tf import REGISTERED
from elmo_tf.lazy import lazy_names

__all__ = (
    *("BCN", "BiDAF", "BiLSTMClassifier", "BiRNN", "CRF", "CRFTagger"),
    *("CharacterEmbedding", "CoreferenceModel", "ESIM", "Ensemble", "PropositionTagger"),
    *("SRLTagger", "TaskModel", "TokenVectors", "WordEmbedding", "load_task"),
)
_HOMES = {
    "Ensemble": "elmo_tf.tasks.task_model",
    "PropositionTagger": "elmo_tf.tasks.semantic_roles.predicates",
    "TaskModel": "elmo_tf.tasks.task_model",
    "load_task": "elmo_tf.tasks.registry",
    **REGISTERED,
}

__getattr__, __dir__ = lazy_names(__name__, {name: _HOMES[name] for name in __all__})
