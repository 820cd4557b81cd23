"""ELMo for today's TensorFlow: deep contextual word vectors as Keras layers.

Public names are imported on first use, which keeps `import elmo_tf` fast. Their classes can still
be loaded from saved Keras models.
"""

from elmo_tf.lazy import lazy_names, register_lazily

__version__ = "0.5.0"

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
    "save_bilm": "elmo_tf.checkpoints.published",
}
_SUBPACKAGES = (
    *("checkpoints", "config", "embedding", "evaluation", "integrations", "layers"),
    *("models", "pipelines", "saved_models", "tasks", "text", "trainers"),
)

# Classes that saved Keras models may contain.
REGISTERED = {
    "AntecedentScores": "elmo_tf.tasks.coreference.antecedents",
    "BCN": "elmo_tf.tasks.classification.model",
    "BiLM": "elmo_tf.models.bilm",
    "BiDAF": "elmo_tf.tasks.question_answering.model",
    "BiLSTMClassifier": "elmo_tf.tasks.classification.model",
    "BiRNN": "elmo_tf.tasks.layers",
    "CRF": "elmo_tf.tasks.tagging.crf",
    "CRFTagger": "elmo_tf.tasks.tagging.model",
    "CellRNN": "elmo_tf.layers.cell_rnn",
    "CharCNN": "elmo_tf.layers.char_cnn",
    "CharacterEmbedding": "elmo_tf.tasks.token_vectors",
    "CoreferenceModel": "elmo_tf.tasks.coreference.model",
    "CutToLengths": "elmo_tf.models.elmo",
    "ESIM": "elmo_tf.tasks.entailment",
    "Elmo": "elmo_tf.models.elmo",
    "ExportedElmo": "elmo_tf.saved_models.exporting.layer",
    "HighwayStack": "elmo_tf.layers.highway",
    "LSTMStack": "elmo_tf.models.lstm_stack",
    "Maxout": "elmo_tf.tasks.classification.model",
    "MeanOverTokens": "elmo_tf.layers.scalar_mix",
    "ProjectedLSTM": "elmo_tf.layers.projected_lstm",
    "ProjectedLSTMCell": "elmo_tf.layers.projected_lstm",
    "SRLTagger": "elmo_tf.tasks.semantic_roles.model",
    "SampledSoftmax": "elmo_tf.layers.sampled_softmax",
    "ScalarMix": "elmo_tf.layers.scalar_mix",
    "ScoringNetwork": "elmo_tf.tasks.coreference.spans",
    "SpanScores": "elmo_tf.tasks.coreference.spans",
    "TiedSoftmax": "elmo_tf.layers.sampled_softmax",
    "TokenEmbedding": "elmo_tf.models.token_encoder",
    "TokenEncoder": "elmo_tf.models.token_encoder",
    "TokenMask": "elmo_tf.models.elmo",
    "TokenVectors": "elmo_tf.tasks.token_vectors",
    "TrilinearSimilarity": "elmo_tf.tasks.question_answering.model",
    "WordEmbedding": "elmo_tf.tasks.token_vectors",
}

_NAMES = {**_HOMES, **{name: f"elmo_tf.{name}" for name in _SUBPACKAGES}}

__all__ = [*_NAMES, "__version__"]

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
register_lazily(__name__, REGISTERED)
