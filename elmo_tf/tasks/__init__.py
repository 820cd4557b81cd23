"""Task models on top of a biLM: those of the ELMo paper, and tagging and classification."""

from elmo_tf.lazy import lazy_names

# The modules of the public names.
HOMES = {
    "BCN": "elmo_tf.tasks.classification.model",
    "BiDAF": "elmo_tf.tasks.question_answering.model",
    "BiLSTM": "elmo_tf.tasks.layers",
    "BiLSTMClassifier": "elmo_tf.tasks.classification.model",
    "BiRNN": "elmo_tf.tasks.layers",
    "CRF": "elmo_tf.tasks.tagging.crf",
    "CRFTagger": "elmo_tf.tasks.tagging.model",
    "CharacterEmbedding": "elmo_tf.tasks.embeddings",
    "CoreferenceModel": "elmo_tf.tasks.coreference.model",
    "ESIM": "elmo_tf.tasks.entailment.model",
    "Maxout": "elmo_tf.tasks.classification.model",
    "SRLTagger": "elmo_tf.tasks.semantic_roles.model",
    "TaskModel": "elmo_tf.tasks.task_model",
    "TokenVectors": "elmo_tf.tasks.embeddings",
    "WordEmbedding": "elmo_tf.tasks.embeddings",
}

__all__ = [*HOMES]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
