"""scores of tags ─► CRF: the likelihood of a sequence of tags, and the best sequence."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from elmo_tf.config_checks import check_int
from elmo_tf.tasks.data.tag_schemes import TagConstraints

# Stands for what is forbidden: beyond any sum of scores, and finite, so that sums of it are no nan.
_FORBIDDEN = -1e30


class CRFWeights(NamedTuple):
    """What a linear chain scores beside the emissions.

    start: float (tag,). Of the first tag.
    transitions: float (tag, tag). Of a tag (column) behind another (row).
    end: float (tag,). Of the last tag.
    """

    start: Any
    transitions: Any
    end: Any


@keras.saving.register_keras_serializable(package="elmo_tf")
class CRF(keras.layers.Layer):
    """A linear-chain conditional random field.

    `score(y) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`,
    `p(y) = exp(score(y)) / sum_y' exp(score(y'))`

    The sum of the likelihood is over all sequences, as published; `constraints` hold where tags are
    chosen, in the call and in `marginals`. Computed in float32 at least.

    Args:
        num_tags: int >= 1.
        constraints: the tags that may come first, after each other, and last; None allows all. See
            `tag_schemes.constraints_of`.

    Call arguments:
        emissions: float (batch, token, tag).
        mask: bool (batch, token) or None. True = a real token; those of a sentence come first.

    Returns:
        int32 (batch, token): the allowed sequence with the highest score (Viterbi); 0 at masked
        tokens.

    Raises:
        ValueError: an argument out of its range, constraints that allow no sequence of some
            length, or emissions of another number of tags.

    Source: Lafferty et al. 2001; Lample et al. 2016, section 2.2.
    """

    def __init__(self, num_tags: int, constraints: TagConstraints | None = None, **kwargs):
        super().__init__(**kwargs)
        check_int(num_tags, "num_tags", least=1)
        self.num_tags = num_tags
        self.constraints = None if constraints is None else TagConstraints(*constraints)
        if self.constraints is not None:
            self.constraints.check(num_tags)
            _check_every_length(self.constraints)
        self.supports_masking = True

    def build(self, input_shape):
        if input_shape[-1] != self.num_tags:
            raise ValueError(
                f"`emissions` must have shape (batch, token, tag) with {self.num_tags} tags. "
                f"Received: shape {tuple(input_shape)}"
            )
        self.start, self.transitions, self.end = (
            self.add_weight(name=name, shape=shape, initializer="glorot_uniform", autocast=False)
            for name, shape in (
                ("start", (self.num_tags,)),
                ("transitions", (self.num_tags, self.num_tags)),
                ("end", (self.num_tags,)),
            )
        )

    def call(self, emissions, mask=None):
        return best_tags(*_padded(emissions, mask), self._allowed_weights())[:, :-1]

    def log_likelihood(self, emissions: Any, tags: Any, mask: Any = None) -> Any:
        """`log p(tags)` of each sentence.

        Args:
            emissions: float (batch, token, tag).
            tags: int (batch, token); those of masked tokens are not read.
            mask: bool (batch, token) or None, see the call.

        Returns:
            float32 (batch,), at most 0; 0 for a sentence without tokens.
        """
        emissions, mask = _padded(emissions, mask)
        tags, weights = ops.pad(tags, [[0, 0], [0, 1]]), self._weights()
        return sequence_score(emissions, tags, mask, weights) - log_normaliser(
            emissions, mask, weights
        )

    def marginals(self, emissions: Any, mask: Any = None) -> Any:
        """The probability of each tag at each token, over all allowed sequences.

        Args:
            emissions: float (batch, token, tag).
            mask: bool (batch, token) or None, see the call.

        Returns:
            float32 (batch, token, tag); zeros at masked tokens.
        """
        return tag_marginals(*_padded(emissions, mask), self._allowed_weights())[:, :-1]

    def compute_mask(self, emissions, previous_mask=None):
        return previous_mask

    def compute_output_spec(self, emissions, mask=None):
        return keras.KerasTensor(emissions.shape[:-1], dtype="int32")

    def _weights(self) -> CRFWeights:
        return CRFWeights(
            *(_wide(ops.convert_to_tensor(one)) for one in (self.start, self.transitions, self.end))
        )

    def _allowed_weights(self) -> CRFWeights:
        weights = self._weights()
        if self.constraints is None:
            return weights
        return CRFWeights(
            *(
                ops.where(ops.convert_to_tensor(allowed), weight, _FORBIDDEN)
                for weight, allowed in zip(weights, self.constraints, strict=True)
            )
        )

    def get_config(self):
        constraints = self.constraints
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "constraints": None if constraints is None else [list(one) for one in constraints],
        }


def _check_every_length(constraints: TagConstraints) -> None:
    """Refuses constraints that allow no sequence of some length."""
    reached = np.asarray(constraints.first, bool)
    last, between = np.asarray(constraints.last, bool), np.asarray(constraints.between, bool)
    # Which tags are reached repeats itself, long before twice as many tokens as there are tags.
    for num_tokens in range(1, 2 * len(reached) + 2):
        if not (reached & last).any():
            raise ValueError(
                f"`constraints` allow no sequence of {num_tokens} tags: is the tag for what is "
                "outside of any span (O) among the labels?"
            )
        reached = reached @ between


def sequence_score(emissions: Any, tags: Any, mask: Any, weights: CRFWeights) -> Any:
    """The score of given tags.

    Args:
        emissions: float (batch, token, tag).
        tags: int (batch, token).
        mask: bool (batch, token).
        weights: of the chain.

    Returns:
        float (batch,); 0 without tokens.
    """
    real = ops.cast(mask, emissions.dtype)
    tags = ops.where(mask, ops.cast(tags, "int32"), 0)
    emitted = ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]  # (batch, token)
    steps = _entries(weights.transitions, tags[:, :-1], tags[:, 1:])  # (batch, token - 1)
    score = ops.sum(emitted * real, axis=1) + ops.sum(steps * real[:, 1:], axis=1)
    is_last = real - ops.concatenate([real[:, 1:], ops.zeros_like(real[:, :1])], axis=1)
    score = score + ops.sum(ops.take(weights.start, tags[:, :1], axis=0) * real[:, :1], axis=1)
    return score + ops.sum(ops.take(weights.end, tags, axis=0) * is_last, axis=1)


def log_normaliser(emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """The logarithm of the sum of `exp(score)` over all sequences of tags.

    Args:
        emissions: float (batch, token, tag), at least one token, real or not.
        mask: bool (batch, token).
        weights: of the chain.

    Returns:
        float (batch,); 0 without tokens.
    """
    forward = _forward_scores(emissions, mask, weights)[-1]
    total = ops.logsumexp(forward + weights.end, axis=-1)
    return ops.where(_has_tokens(mask), total, 0.0)


def tag_marginals(emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """The probability of each tag at each token, by the forward-backward algorithm.

    Args:
        emissions: float (batch, token, tag).
        mask: bool (batch, token).
        weights: of the chain.

    Returns:
        float (batch, token, tag); zeros at masked tokens.
    """

    def step(behind, token):
        emission, is_real = _split(token)
        scores = ops.logsumexp(weights.transitions + (emission + behind)[:, None, :], axis=-1)
        # From a token to the one before it; the last real one has nothing but the end behind it.
        return ops.where(is_real, scores, behind), behind

    end = ops.broadcast_to(weights.end, ops.shape(emissions[:, 0]))
    _, behind = ops.scan(step, end, _tokens(emissions, mask), reverse=True)
    scores = _forward_scores(emissions, mask, weights) + behind  # (token, batch, tag)
    probabilities = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))
    probabilities = ops.transpose(probabilities, (1, 0, 2))
    return ops.where(mask[..., None], probabilities, 0.0)


def best_tags(emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """The sequence of tags with the highest score, by the Viterbi algorithm.

    Args:
        emissions: float (batch, token, tag).
        mask: bool (batch, token).
        weights: of the chain.

    Returns:
        int32 (batch, token); 0 at masked tokens.
    """

    def step(scores, token):
        emission, is_real = _split(token)
        after = ops.max(scores[:, :, None] + weights.transitions, axis=1) + emission
        scores = ops.where(is_real, after, scores)
        return scores, scores

    def step_back(tag, scores):
        before = scores[..., :-1] + ops.transpose(ops.take(weights.transitions, tag, axis=1))
        is_real = scores[..., -1] > 0
        return ops.where(is_real, _argmax(before), tag), tag

    scores = _scanned(step, emissions, mask, weights)  # (token, batch, tag)
    is_real_next = ops.cast(ops.transpose(mask), scores.dtype)[1:, :, None]
    last = _argmax(scores[-1] + weights.end)
    # A tag is chosen from the scores before it, if it stands at a real token.
    steps = ops.concatenate([scores[:-1], is_real_next], axis=-1)
    first, tags = ops.scan(step_back, last, steps, reverse=True)
    tags = ops.transpose(ops.concatenate([first[None], tags], axis=0))
    return ops.where(mask, tags, 0)


def _forward_scores(emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """For each token and tag, the log-sum of all that leads there; (token, batch, tag)."""

    def step(scores, token):
        emission, is_real = _split(token)
        after = ops.logsumexp(scores[:, :, None] + weights.transitions, axis=1) + emission
        scores = ops.where(is_real, after, scores)
        return scores, scores

    return _scanned(step, emissions, mask, weights)


def _scanned(step: Callable, emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """The scores of a step over the tokens, from those of the first; (token, batch, tag)."""
    tokens = _tokens(emissions, mask)
    first = weights.start + _split(tokens[0])[0]
    _, scores = ops.scan(step, first, tokens[1:])
    return ops.concatenate([first[None], scores], axis=0)


def _tokens(emissions: Any, mask: Any) -> Any:
    """Emissions with 1 for a real token behind them: one array (token, batch, tag + 1) to scan."""
    real = ops.cast(mask, emissions.dtype)[..., None]
    return ops.transpose(ops.concatenate([emissions, real], axis=-1), (1, 0, 2))


def _split(token: Any) -> tuple[Any, Any]:
    """Emissions (batch, tag), and whether the token is real, bool (batch, 1)."""
    return token[:, :-1], token[:, -1:] > 0


def _argmax(scores: Any) -> Any:
    return ops.cast(ops.argmax(scores, axis=-1), "int32")


def _entries(matrix: Any, rows: Any, columns: Any) -> Any:
    """Numbers of a matrix, of the shape of their places."""
    width = matrix.shape[1]
    return ops.take(ops.reshape(matrix, (-1,)), rows * width + columns, axis=0)


def _has_tokens(mask: Any) -> Any:
    return ops.any(mask, axis=1)


def _wide(values: Any) -> Any:
    """At least 32 bits: sums over many tokens need them."""
    return ops.cast(values, keras.backend.result_type(values.dtype, "float32"))


def _padded(emissions: Any, mask: Any) -> tuple[Any, Any]:
    """Emissions and mask with one token more, which is masked, so that there is always one."""
    emissions = _wide(emissions)
    if mask is None:
        mask = ops.ones_like(emissions[..., 0], dtype="bool")
    return ops.pad(emissions, [[0, 0], [0, 1], [0, 0]]), ops.pad(mask, [[0, 0], [0, 1]])
