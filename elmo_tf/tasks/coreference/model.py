"""CoreferenceModel: finds the entities of a document and their mentions."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers

from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.coreference.antecedents import (
    AntecedentScores,
    antecedent_loss,
    antecedents_of,
    entities_of,
    link_scores,
)
from elmo_tf.tasks.coreference.spans import SpanScores, candidates, kept_spans, span_vectors
from elmo_tf.tasks.layers import BiRNN
from elmo_tf.tasks.task_model import TaskModel, check_distinct
from elmo_tf.text.inputs import as_tensor, checked

_PADDING = -1  # of all numbers of a row of gold mentions
_NO_ENTITY = -1


@keras.saving.register_keras_serializable(package="elmo_tf")
class CoreferenceModel(TaskModel):
    """End-to-end coreference resolution: finds entities and all their mentions in a document.

    A biLSTM with coupled gates encodes each sentence of `[embeddings; ELMo]`. Every span of at most
    `max_width` tokens within a sentence gets a mention score. The best spans that do not cross are
    kept, and each is linked to the best of the kept spans before it, or to none.

    Args:
        embeddings, elmo: see `TokenVectors`.
        placement: "input", to concatenate ELMo with the embeddings, or "none". Defaults to "input".
        units: int >= 1. Width of each direction of the biLSTM. Defaults to the published 200.
        dropout: float, 0 to below 1. Dropout rate of the state and the output of the biLSTM, the
            hidden layers, and the embeddings of widths, distances, speakers and genres. Defaults to
            the published 0.2.
        lexical_dropout: float, 0 to below 1. Dropout rate of `[embeddings; ELMo]`, in addition to
            that of `elmo`. Defaults to the published 0.5.
        hidden_units: int >= 1. Width of the hidden layers of both scores. Defaults to the published
            150.
        feature_dim: int >= 1. Width of the embeddings of widths, distances, speakers and genres.
            Defaults to the published 20.
        max_width: int >= 1. Maximum number of tokens of a mention. The memory for choosing the
            spans grows with its cube. Defaults to the published 10.
        span_ratio: float, above 0. Maximum number of kept spans per token. Defaults to the
            published 0.4.
        max_antecedents: int >= 1. Number of kept spans before a span that may be its antecedent.
            Defaults to the published 250.
        mention_loss: float >= 0. Weight of the binary cross-entropy of the mention scores. If it is
            above 0, spans with a mention score above 0 that are linked to nothing are predicted as
            entities with one mention; otherwise, such entities are never predicted. Defaults to
            the published 0.
        genres: distinct strings. The names of genres; other genres are treated as unknown. Without
            any, the genre is ignored. Defaults to ().

    Call arguments:
        inputs: the sentences of one document, see `TaskModel`, or a dict with the key "tokens". The
            dict may also have "speakers", string (sentence, token), the name of the speaker of each
            token, `""` for unknown; and "genre", string () or (1,), `""` for unknown. In `fit`,
            pass a `tf.data.Dataset` of documents. Then "genre" must be (1,), and `y` is int
            (mention, 3): the first and the last token of a mention, as positions in the document
            from 0, and the number of its entity, at least 0. Rows of -1 are padding. A mention with
            several entities counts for the one with the greatest number.
        training: bool. Defaults to False.

    Returns:
        A dict. "mention_scores": float32 (token, width), the score of each span by its first token
        in the document and its number of tokens - 1; "candidates": bool (token, width), whether
        this span is within a sentence; "spans": int32 (span, 2), the first and last token of the
        kept spans, in this order; "span_scores": float32 (span,), their mention scores;
        "antecedents": int32 (span, antecedent), the indices of the kept spans before each span,
        the nearest first, negative where there is none; "antecedent_scores": float32
        (span, 1 + antecedent), the score of no antecedent, 0, and those of "antecedents".

    Raises:
        ValueError: an argument is out of its range, or see `TaskModel`.

    Source: Lee et al. 2017; Peters et al. 2018, section 4 and supplement; for `mention_loss`, Zhang
    et al. 2018.
    """

    features: ClassVar[dict[str, tf.TensorSpec]] = {
        "speakers": tf.TensorSpec((None, None), tf.string),
        "genre": tf.TensorSpec((1,), tf.string),
    }
    listed = ("mention_start", "mention_end", "entity")
    shared_settings: ClassVar[tuple[str, ...]] = (
        *("max_width", "span_ratio", "max_antecedents", "mention_loss", "genres"),
    )

    def __init__(
        self,
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 200,
        dropout: float = 0.2,
        lexical_dropout: float = 0.5,
        hidden_units: int = 150,
        feature_dim: int = 20,
        max_width: int = 10,
        span_ratio: float = 0.4,
        max_antecedents: int = 250,
        mention_loss: float = 0.0,
        genres: Sequence[str] = (),
        **kwargs,
    ):
        if placement not in ("input", "none"):
            raise ValueError(f"`placement` must be input or none. Received: {placement!r}")
        super().__init__(embeddings, elmo, placement, **kwargs)
        if span_ratio <= 0:
            raise ValueError(f"`span_ratio` must be a number above 0. Received: {span_ratio!r}")
        if mention_loss < 0:
            raise ValueError(f"`mention_loss` must be a number >= 0. Received: {mention_loss!r}")
        if isinstance(genres, str) or not all(isinstance(each, str) and each for each in genres):
            raise ValueError(f"`genres` must be a list of names. Received: {genres!r}")
        check_distinct(genres, "genre")
        self.settings = {
            "units": units,
            "dropout": dropout,
            "lexical_dropout": lexical_dropout,
            "hidden_units": hidden_units,
            "feature_dim": feature_dim,
            "max_width": max_width,
            "span_ratio": span_ratio,
            "max_antecedents": max_antecedents,
            "mention_loss": mention_loss,
            "genres": list(genres),
        }
        dtype = self.dtype_policy
        self.lexical_dropout = layers.Dropout(lexical_dropout, dtype=dtype, name="lexical_dropout")
        self.encoder = BiRNN(
            *(units, "coupled_lstm", dropout), learn_initial_state=True, dtype=dtype, name="encoder"
        )
        self.encoder_dropout = layers.Dropout(dropout, dtype=dtype, name="encoder_dropout")
        self.span_scores = SpanScores(
            *(max_width, hidden_units, feature_dim, dropout), dtype=dtype, name="span_scores"
        )
        self.antecedent_scores = AntecedentScores(
            *(max_antecedents, hidden_units, feature_dim),
            num_genres=len(genres) + 1 if genres else 0,
            dropout=dropout,
            dtype=dtype,
            name="antecedent_scores",
        )
        self._create_weights()

    def _by_name(self, inputs):
        return dict(inputs) if isinstance(inputs, dict) else {"tokens": inputs}

    def named_inputs(self, inputs):
        """See `TaskModel`. Speakers and genre become int32, 0 for unknown."""
        inputs = self._by_name(inputs)
        speakers = inputs.get("speakers")
        table = as_tensor([] if speakers is None else speakers)
        # An empty list is an empty batch of sentences.
        inputs["speakers"] = tf.reshape(table, (0, 0)) if table.shape == (0,) else table
        genre = inputs.get("genre")
        inputs["genre"] = tf.reshape("" if genre is None else genre, (-1,))
        named = super().named_inputs(inputs)
        if speakers is None:
            named["speakers"] = tf.zeros(tf.shape(named["tokens"])[:2], tf.int32)
        elif named["speakers"].dtype == tf.string:
            named["speakers"] = _speaker_ids(named["speakers"], tf.shape(named["tokens"])[1])
        if named["genre"].dtype == tf.string:
            genres = self.settings["genres"]
            is_genre = tf.cast(named["genre"] == tf.constant(genres, tf.string), tf.int32)
            ids = tf.reduce_sum(is_genre * tf.range(1, len(genres) + 1), keepdims=True)
            named["genre"] = tf.ensure_shape(ids, (1,))
        return named

    def call(self, inputs, training=False):
        return self._linked(inputs, *self._mention_scores(inputs, training), training)

    def _mention_scores(self, inputs, training):
        """The scores of all spans, float32 (token, width), and what `_linked` needs besides."""
        vectors = self._vectors(inputs, "tokens", training)
        mask = vectors["mask"]
        x = self.lexical_dropout(vectors["input"], training=training)
        encoded = self.encoder(x, mask=mask, training=training)
        encoded = self.encoder_dropout(encoded, training=training)
        x, encoded = (tf.boolean_mask(each, mask) for each in (x, encoded))  # (token, feature)
        scores, heads, widths = self.span_scores(x, encoded, training=training)
        return tf.cast(scores, tf.float32), x, encoded, mask, heads, widths

    def _linked(self, inputs, scores, x, encoded, mask, heads, widths, training):
        """The outputs of the call, for given scores of all spans."""
        sentences = tf.cast(tf.where(mask)[:, 0], tf.int32)
        is_candidate = candidates(sentences, self.settings["max_width"])
        num_tokens = tf.shape(scores)[0]
        num_spans = tf.cast(self.settings["span_ratio"] * tf.cast(num_tokens, tf.float32), tf.int32)
        cells = kept_spans(tf.stop_gradient(scores), is_candidate, num_spans)
        span_scores = tf.gather(tf.reshape(scores, [-1]), cells)
        first = cells // self.settings["max_width"]
        speakers = tf.boolean_mask(inputs["speakers"], mask) - 1  # (token,)
        antecedent_scores = self.antecedent_scores(
            span_vectors(x, encoded, heads, widths, cells),
            tf.gather(speakers, first),
            inputs["genre"],
            training=training,
        )
        antecedents = antecedents_of(tf.range(tf.size(cells)), tf.shape(antecedent_scores)[1])
        return {
            "mention_scores": scores,
            "candidates": is_candidate,
            "spans": tf.stack([first, first + cells % self.settings["max_width"]], axis=-1),
            "span_scores": span_scores,
            "antecedents": antecedents,
            "antecedent_scores": link_scores(antecedent_scores, span_scores, antecedents),
        }

    def per_example_loss(self, y, outputs, inputs=None):
        """See `TaskModel`: that of the document, float32 (1,); (0,) for one without tokens.

        The sum of `antecedent_loss`, and of `mention_loss` times the binary cross-entropy of the
        mention scores of all spans within a sentence.
        """
        scores = outputs["mention_scores"]
        entities = entity_grid(y, tf.shape(scores)[0], self.settings["max_width"])
        first, last = tf.unstack(outputs["spans"], axis=1)
        loss = antecedent_loss(
            outputs["antecedent_scores"],
            outputs["antecedents"],
            tf.gather_nd(entities, tf.stack([first, last - first], axis=-1)),
        )
        if self.settings["mention_loss"]:
            is_mention = tf.cast(entities >= 0, scores.dtype)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(is_mention, scores)
            losses = tf.where(outputs["candidates"], losses, 0.0)
            loss += self.settings["mention_loss"] * tf.reduce_sum(losses)
        return tf.repeat(loss, tf.minimum(tf.shape(scores)[0], 1))

    def for_metrics(self, y, outputs, sample_weight):
        raise ValueError("Keras' `metrics` cannot score entities: use `scores.coreference_scores`.")

    def decoded(self, outputs, inputs):
        """See `TaskModel`.

        Returns:
            The mentions of all entities, in order of their first and last tokens, which are
            positions in the document from 0: "mention_start", "mention_end" and "entity", each
            int32 (mention,). Entities are numbered from 0, in order of their first mention.
        """
        is_mention = outputs["span_scores"] > 0
        if not self.settings["mention_loss"]:
            is_mention = tf.zeros_like(is_mention)
        entities = entities_of(outputs["antecedent_scores"], is_mention)
        has_entity = entities >= 0
        spans = tf.boolean_mask(outputs["spans"], has_entity)
        return {
            "mention_start": spans[:, 0],
            "mention_end": spans[:, 1],
            "entity": tf.boolean_mask(entities, has_entity),
        }

    def joint_predictions(self, members, inputs):
        """See `TaskModel`: average mention scores select spans; they and `s_a` determine the links.

        Source: Lee et al. 2017.
        """
        parts = [member._mention_scores(inputs, False) for member in members]
        scores = tf.add_n([of_member for of_member, *_ in parts]) / len(members)
        outputs = [
            member._linked(inputs, scores, *others, False)
            for member, (_, *others) in zip(members, parts, strict=True)
        ]
        links = tf.add_n([each["antecedent_scores"] for each in outputs]) / len(members)
        return self.decoded({**outputs[0], "antecedent_scores": links}, inputs)

    def entities(self, inputs: Any) -> list[list[tuple[int, int]]]:
        """Predicts the mentions of each entity, `(first, last)` token of the document, from 0."""
        return self.predict_lists(inputs)

    def in_parts(self, inputs):
        return [inputs]  # one document

    def _ready(self, function, x, y=None, sample_weight=None):
        x, y, sample_weight = super()._ready(function, x, y, sample_weight)
        if not isinstance(x, dict):
            return x, y, sample_weight
        document = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        return tf.data.Dataset.from_tensors(document), None, None  # Keras would divide it

    def as_lists(self, predictions):
        rows = zip(*(predictions[name].numpy().tolist() for name in self.listed), strict=True)
        entities: dict[int, list[tuple[int, int]]] = {}
        for first, last, entity in rows:
            entities.setdefault(entity, []).append((first, last))
        return list(entities.values())


def _speaker_ids(speakers: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """A number for each speaker, int32 (sentence, num_tokens); 0 for `""` and padding."""
    missing = num_tokens - tf.shape(speakers)[1]
    speakers = tf.pad(speakers, [[0, 0], [0, missing]], constant_values="")
    names = tf.concat([[""], tf.reshape(speakers, (-1,))], axis=0)
    return tf.reshape(tf.unique(names).idx[1:], tf.shape(speakers))


def entity_grid(y: Any, num_tokens: tf.Tensor, max_width: int) -> tf.Tensor:
    """The gold entity of each span of the grid, int32 (token, width); checks `y`, see the model.

    The greatest one of several; -1 for none. Mentions of more than `max_width` tokens are omitted.
    """
    y = tf.ensure_shape(tf.cast(y, tf.int32), (None, 3))
    first, last, entity = tf.unstack(y, axis=1)
    is_mention = (first >= 0) & (first <= last) & (last < num_tokens) & (entity >= 0)
    wrong = tf.boolean_mask(y, ~(is_mention | tf.reduce_all(y == _PADDING, axis=1)))
    message = (
        "A mention in `y` must have 0 <= first token <= last token < number of tokens, and an "
        "entity of at least 0. Number of tokens, and the first wrong mention"
    )
    y = checked(y, tf.size(wrong) == 0, message, num_tokens, wrong[:1])
    first, last, entity = tf.unstack(y, axis=1)
    is_in_grid = (entity != _PADDING) & (last - first < max_width)
    cells = tf.boolean_mask(tf.stack([first, last - first], axis=-1), is_in_grid)
    no_entities = tf.fill((num_tokens, max_width), _NO_ENTITY)
    return tf.tensor_scatter_nd_max(no_entities, cells, tf.boolean_mask(entity, is_in_grid))
