"""ELMo for today's TensorFlow: deep contextual word vectors as Keras layers.

Public names are imported on first use, which keeps `import elmo_tf` fast. Their classes can still
be loaded from saved Keras models.
"""

from elmo_tf.lazy import lazy_names, register_lazily

__version__ = "0.6.0"

_HOMES = {
    "BiLM": "elmo_tf.models.bilm",
    "BiLMConfig": "elmo_tf.config",
    "CharCNNConfig": "elmo_tf.config",
    "Elmo": "elmo_tf.models.elmo",
    "Embedder": "elmo_tf.embedding.embedder",
    "LSTMConfig": "elmo_tf.config",
    "Lexicon": "elmo_tf.text.lexicon",
    "LexiconConfig": "elmo_tf.config",
    "Vocabulary": "elmo_tf.text.vocabulary",
    "char_ids": "elmo_tf.text.characters",
    "load_bilm": "elmo_tf.checkpoints.load",
    "load_language_model": "elmo_tf.checkpoints.load",
    "portable": "elmo_tf.portability",
    "save_bilm": "elmo_tf.checkpoints.published",
}
_SUBPACKAGES = (
    *("checkpoints", "config", "embedding", "evaluation", "integrations", "layers"),
    *("models", "pipelines", "saved_models", "tasks", "text", "trainers"),
)

# Classes that saved Keras models may contain, by module.
_CLASSES = {
    "layers.cell_rnn": ("CellRNN",),
    "layers.char_cnn": ("CharCNN",),
    "layers.highway": ("HighwayStack",),
    "layers.projected_lstm": ("ProjectedLSTM", "ProjectedLSTMCell"),
    "layers.sampled_softmax": ("SampledSoftmax",),
    "layers.scalar_mix": ("MeanOverTokens", "ScalarMix"),
    "models.bilm": ("BiLM",),
    "models.elmo": ("CutToLengths", "Elmo", "TokenMask"),
    "saved_models.exporting.layer": ("ExportedElmo",),
    "tasks.classification.model": ("BCN", "BiLSTMClassifier"),
    "tasks.coreference.model": ("CoreferenceModel",),
    "tasks.entailment": ("ESIM",),
    "tasks.layers": ("BiRNN",),
    "tasks.question_answering.model": ("BiDAF",),
    "tasks.semantic_roles.model": ("SRLTagger",),
    "tasks.tagging.crf": ("CRF",),
    "tasks.tagging.model": ("CRFTagger",),
    "tasks.token_vectors": ("CharacterEmbedding", "TokenVectors", "WordEmbedding"),
}
REGISTERED = {name: f"elmo_tf.{home}" for home, names in _CLASSES.items() for name in names}

_NAMES = {**_HOMES, **{name: f"elmo_tf.{name}" for name in _SUBPACKAGES}}

__all__ = [*_NAMES, "__version__"]

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
register_lazily(__name__, REGISTERED)
