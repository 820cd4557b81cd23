"""Linear-chain CRF: emission scores ─► likelihood of a tag sequence, and the best sequence.

With `zero_weights`, the functions decode for taggers that learn no transitions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from elmo_tf.tasks.tag_schemes import TagConstraints

# The score of a forbidden tag: below any sum of scores, and finite, so that sums are never NaN.
_FORBIDDEN = -1e30


class CRFWeights(NamedTuple):
    """The scores of a linear chain, in addition to the emissions."""

    start: Any  # float (tag,)
    transitions: Any  # float (tag, tag), of a tag (column) after another (row)
    end: Any  # float (tag,)


@keras.saving.register_keras_serializable(package="elmo_tf")
class CRF(keras.layers.Layer):
    """A linear-chain conditional random field.

    `score(y) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`,
    `p(y) = exp(score(y)) / sum_y' exp(score(y'))`

    The likelihood sums over all sequences, as published. `constraints` apply to prediction only: to
    the call and to `allowed_weights`. Computed in float32 or wider.

    Args:
        num_tags: int >= 1. Number of tags.
        constraints: the allowed first tags, transitions and last tags, see
            `tag_schemes.constraints_of`. None allows all. Defaults to None.

    Call arguments:
        emissions: float (batch, token, tag).
        mask: bool (batch, token) or None. True = a real token; padding follows the real tokens.
            Defaults to None, all real.

    Returns:
        int32 (batch, token): the allowed sequence with the highest score (Viterbi); 0 at masked
        tokens.

    Source: Lafferty et al. 2001; Lample et al. 2016, section 2.2.
    """

    def __init__(self, num_tags: int, constraints: TagConstraints | None = None, **kwargs):
        super().__init__(**kwargs)
        self.num_tags = num_tags
        self.constraints = None if constraints is None else TagConstraints(*constraints)
        self.supports_masking = True

    def build(self, input_shape):
        size = self.num_tags
        shapes = {"start": (size,), "transitions": (size, size), "end": (size,)}
        self.start, self.transitions, self.end = (
            self.add_weight(name=name, shape=shape, initializer="glorot_uniform", autocast=False)
            for name, shape in shapes.items()
        )

    def call(self, emissions, mask=None):
        return best_tags(emissions, self.allowed_weights(), mask)

    def log_likelihood(self, emissions: Any, tags: Any, mask: Any = None) -> Any:
        """`log p(tags)` of each sentence, float32 (batch,); 0 for a sentence without tokens.

        `tags`: int (batch, token); values at masked tokens are ignored.
        """
        emissions, mask = _padded(emissions, mask)
        tags, weights = ops.pad(tags, [[0, 0], [0, 1]]), self._weights()
        # The log of the sum of `exp(score)` over all sequences, by the forward algorithm.
        forward = _forward_scores(emissions, mask, weights)[-1]
        total = ops.logsumexp(forward + weights.end, axis=-1)
        total = ops.where(ops.any(mask, axis=1), total, 0.0)
        return _sequence_score(emissions, tags, mask, weights) - total

    def allowed_weights(self) -> CRFWeights:
        """The weights of the layer, restricted to the sequences that `constraints` allow."""
        return _constrained(self._weights(), self.constraints)

    def _weights(self) -> CRFWeights:
        if not self.built:
            self.build((None, None, self.num_tags))
        weights = (self.start, self.transitions, self.end)
        return CRFWeights(*(_wide(ops.convert_to_tensor(weight)) for weight in weights))

    def get_config(self):
        constraints = self.constraints
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "constraints": None if constraints is None else list(map(list, constraints)),
        }


def zero_weights(
    num_tags: int, constraints: TagConstraints | None, dtype: str = "float32"
) -> CRFWeights:
    """The weights of a chain that scores allowed sequences by their emissions, of `dtype`, only."""
    shapes = (num_tags,), (num_tags, num_tags), (num_tags,)
    weights = CRFWeights(*(_wide(ops.zeros(shape, dtype)) for shape in shapes))
    return _constrained(weights, constraints)


def _constrained(weights: CRFWeights, constraints: TagConstraints | None) -> CRFWeights:
    """The weights, with a score below any other where `constraints` forbid a tag."""
    if constraints is None:
        return weights
    pairs = zip(weights, map(ops.convert_to_tensor, constraints), strict=True)
    return CRFWeights(*(ops.where(allowed, weight, _FORBIDDEN) for weight, allowed in pairs))


def best_tags(emissions: Any, weights: CRFWeights, mask: Any = None) -> Any:
    """The tag sequence with the highest score (Viterbi algorithm), see the call of `CRF`."""

    def step(scores, token):
        emission, is_real = _split(token)
        sums = scores[:, :, None] + weights.transitions
        after = ops.max(sums, axis=1, initial=-np.inf) + emission  # `initial` allows an empty batch
        scores = ops.where(is_real, after, scores)
        return scores, scores

    def step_back(tag, scores):
        before = scores[..., :-1] + ops.transpose(ops.take(weights.transitions, tag, axis=1))
        is_real = scores[..., -1] > 0
        return ops.where(is_real, _argmax(before), tag), tag

    emissions, mask = _padded(emissions, mask)
    scores = _scanned(step, emissions, mask, weights)  # (token, batch, tag)
    is_real_next = ops.cast(ops.transpose(mask), scores.dtype)[1:, :, None]
    last = _argmax(scores[-1] + weights.end)
    # A step chooses the tag before a real token, and copies the tag of a masked token.
    steps = ops.concatenate([scores[:-1], is_real_next], axis=-1)
    first, tags = ops.scan(step_back, last, steps, reverse=True)
    tags = ops.transpose(ops.concatenate([first[None], tags], axis=0))
    return ops.where(mask, tags, 0)[:, :-1]


def are_allowed(tags: Any, mask: Any, constraints: TagConstraints) -> Any:
    """Whether constraints allow the tags, int32 (batch, token), of each sentence: bool (batch,)."""
    num_tags = len(constraints.first)
    emissions, mask = _padded(ops.zeros((*ops.shape(tags), num_tags)), mask)
    tags, weights = ops.pad(tags, [[0, 0], [0, 1]]), zero_weights(num_tags, constraints)
    return _sequence_score(emissions, tags, mask, weights) == 0


def tag_marginals(emissions: Any, weights: CRFWeights, mask: Any = None) -> Any:
    """The probability of each tag at each token, over all sequences (forward-backward algorithm).

    float32 (batch, token, tag); zeros at masked tokens.
    """

    def step(after, token):
        emission, is_real = _split(token)
        scores = ops.logsumexp(weights.transitions + (emission + after)[:, None, :], axis=-1)
        # Masked tokens leave the scores unchanged, so the last real token has those of the end.
        return ops.where(is_real, scores, after), after

    emissions, mask = _padded(emissions, mask)
    end = ops.broadcast_to(weights.end, ops.shape(emissions[:, 0]))
    _, backward = ops.scan(step, end, _tokens(emissions, mask), reverse=True)
    scores = _forward_scores(emissions, mask, weights) + backward  # (token, batch, tag)
    probabilities = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))
    probabilities = ops.transpose(probabilities, (1, 0, 2))
    return ops.where(mask[..., None], probabilities, 0.0)[:, :-1]


# The functions below take emissions, float (batch, token, tag), with at least one token, real or
# masked, and the mask, bool (batch, token).


def _sequence_score(emissions: Any, tags: Any, mask: Any, weights: CRFWeights) -> Any:
    """The score of tags, int (batch, token): float (batch,); 0 for a sentence without tokens."""
    real = ops.cast(mask, emissions.dtype)
    tags = ops.where(mask, ops.cast(tags, "int32"), 0)
    emitted = ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]  # (batch, token)
    pairs = tags[:, :-1] * weights.end.shape[0] + tags[:, 1:]  # entries of the transitions
    steps = ops.take(ops.reshape(weights.transitions, (-1,)), pairs, axis=0)
    score = ops.sum(emitted * real, axis=1) + ops.sum(steps * real[:, 1:], axis=1)
    is_last = real - ops.concatenate([real[:, 1:], ops.zeros_like(real[:, :1])], axis=1)
    score = score + ops.sum(ops.take(weights.start, tags[:, :1], axis=0) * real[:, :1], axis=1)
    return score + ops.sum(ops.take(weights.end, tags, axis=0) * is_last, axis=1)


def _forward_scores(emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """The log-sum-exp of the scores of all sequences up to each tag; (token, batch, tag)."""

    def step(scores, token):
        emission, is_real = _split(token)
        after = ops.logsumexp(scores[:, :, None] + weights.transitions, axis=1) + emission
        scores = ops.where(is_real, after, scores)
        return scores, scores

    return _scanned(step, emissions, mask, weights)


def _scanned(step: Callable, emissions: Any, mask: Any, weights: CRFWeights) -> Any:
    """Scans `step` over the tokens, starting with the scores of the first; (token, batch, tag)."""
    tokens = _tokens(emissions, mask)
    first = weights.start + _split(tokens[0])[0]
    _, scores = ops.scan(step, first, tokens[1:])
    return ops.concatenate([first[None], scores], axis=0)


def _tokens(emissions: Any, mask: Any) -> Any:
    """Emissions and, as the last feature, the mask: one array (token, batch, tag + 1) to scan."""
    real = ops.cast(mask, emissions.dtype)[..., None]
    return ops.transpose(ops.concatenate([emissions, real], axis=-1), (1, 0, 2))


def _split(token: Any) -> tuple[Any, Any]:
    """Emissions (batch, tag), and whether the token is real, bool (batch, 1)."""
    return token[:, :-1], token[:, -1:] > 0


def _argmax(scores: Any) -> Any:
    return ops.cast(ops.argmax(scores, axis=-1), "int32")


def _wide(values: Any) -> Any:
    """Casts to 32 bits or more, which sums over many tokens need."""
    return ops.cast(values, keras.backend.result_type(values.dtype, "float32"))


def _padded(emissions: Any, mask: Any) -> tuple[Any, Any]:
    """Appends a masked token to emissions and mask, so that there is always one token."""
    emissions = _wide(emissions)
    if mask is None:
        mask = ops.ones_like(emissions[..., 0], dtype="bool")
    return ops.pad(emissions, [[0, 0], [0, 1], [0, 0]]), ops.pad(mask, [[0, 0], [0, 1]])
