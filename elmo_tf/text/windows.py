"""Sentences ─► windows: the batches for training and evaluating a language model, in `tf.data`.

Sentences are concatenated in batch rows, and the rows are cut into windows; the LSTM state of a row
is carried from window to window. Both directions read the same sentences at the same time, the
backward direction with each sentence reversed, so that the distinct tokens of a window are encoded
once for both.
"""

import tensorflow as tf

from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary

# Sentence boundaries. No token of a text equals them, since they contain whitespace.
BOS = " <S>"
EOS = " </S>"
_STREAMS = 4  # inputs and targets of the forward direction, then of the backward one


# There is no Python control flow to convert, and AutoGraph would take most of the time.
@tf.autograph.experimental.do_not_convert
def lm_windows(
    sentences: tf.data.Dataset, num_rows: int, window: int, drop_remainder: bool = True
) -> tf.data.Dataset:
    """Cuts a stream of sentences into windows for both directions.

    Forward inputs are `<S> w1 … wn` and targets `w1 … wn </S>`; backward inputs `</S> wn … w1` and
    targets `wn … w1 <S>`. Sentences are assigned to the rows with the least text, which keeps the
    rows balanced.

    Args:
        sentences: a dataset of string (token,). Empty sentences are skipped.
        num_rows: int >= 1. Batch rows of a window.
        window: int >= 1. Length of a window in tokens.
        drop_remainder: whether to drop the text that remains at the end, or to return it in masked
            windows.

    Returns:
        A dataset of dicts: "inputs" and "targets", string (direction, row, token), and "mask",
        bool (row, token). Its iterator can be saved by `tf.train.Checkpoint`.
    """
    streams = sentences.filter(lambda tokens: tf.size(tokens) > 0).map(_streams)
    batches = streams.ragged_batch(num_rows).map(lambda batch: (_ragged(batch), False))
    if not drop_remainder:
        no_sentence = _ragged(tf.zeros((0, 0, _STREAMS), tf.string))
        batches = batches.concatenate(tf.data.Dataset.from_tensors((no_sentence, True)))

    def scan(state, element):
        values, lengths = state
        batch, last = element
        rows = tf.RaggedTensor.from_row_lengths(values, lengths)
        rows = tf.concat([rows, _one_sentence_per_row(batch, lengths)], axis=1)
        lengths = rows.row_lengths()
        shortest, longest = tf.reduce_min(lengths), tf.reduce_max(lengths)
        num_windows = tf.where(last, -(-longest // window), shortest // window)
        taken = num_windows * window
        cut = rows.to_tensor("", shape=(num_rows, None, _STREAMS))[:, :taken]
        missing = taken - tf.shape(cut, tf.int64)[1]
        cut = tf.pad(cut, [[0, 0], [0, missing], [0, 0]])  # (row, num_windows · window, stream)
        mask = tf.sequence_mask(lengths, taken)
        rest = rows[:, taken:]
        state = rest.values, tf.ensure_shape(rest.row_lengths(), (num_rows,))
        return state, (_cut(cut, num_windows, window), _cut(mask, num_windows, window))

    start = tf.zeros((0, _STREAMS), tf.string), tf.zeros((num_rows,), tf.int64)
    return batches.scan(start, scan).unbatch().map(_as_dict)


def boundary_or(tokens: tf.Tensor, bos: int, eos: int, other: tf.Tensor) -> tf.Tensor:
    """Returns `bos` and `eos` where a window's tokens are boundaries, and `other` elsewhere."""
    return tf.where(tokens == BOS, bos, tf.where(tokens == EOS, eos, other))


def target_ids(vocabulary: Vocabulary, targets: tf.Tensor) -> tf.Tensor:
    """Returns the vocabulary ids of a window's targets, int32 of the same shape."""
    return boundary_or(targets, BOS_ID, EOS_ID, tf.cast(vocabulary.lookup(targets), tf.int32))


def _streams(tokens: tf.Tensor) -> tf.Tensor:
    """Inputs and targets of a sentence, string (token + 1, stream)."""
    backward = tokens[::-1]
    columns = (
        tf.concat([[BOS], tokens], axis=0),
        tf.concat([tokens, [EOS]], axis=0),
        tf.concat([[EOS], backward], axis=0),
        tf.concat([backward, [BOS]], axis=0),
    )
    return tf.stack(columns, axis=-1)


def _ragged(batch: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Converts batches of sentences of a static length, which are dense, to ragged tensors."""
    if isinstance(batch, tf.RaggedTensor):
        return batch
    rows, tokens, _ = tf.unstack(tf.shape(batch, tf.int64))
    values = tf.reshape(batch, (-1, _STREAMS))
    return tf.RaggedTensor.from_row_lengths(values, tf.fill([rows], tokens))


def _one_sentence_per_row(batch: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Assigns the sentences to rows: the longest sentence to the row with the least text."""
    values, sizes = batch.values, batch.row_lengths()
    sizes = tf.pad(sizes, [[0, tf.shape(lengths)[0] - tf.shape(sizes)[0]]])
    batch = tf.RaggedTensor.from_row_lengths(values, sizes)
    longest_first = tf.argsort(sizes, direction="DESCENDING", stable=True)
    place = tf.argsort(tf.argsort(lengths, stable=True))  # (row,), 0 = the shortest row
    return tf.gather(batch, tf.gather(longest_first, place))


def _cut(rows: tf.Tensor, num_windows: tf.Tensor, window: int) -> tf.Tensor:
    """(row, num_windows · window, …) → (num_windows, row, window, …)."""
    rest = rows.shape[2:]
    rows = tf.reshape(rows, (rows.shape[0], num_windows, window, *rest))
    return tf.transpose(rows, (1, 0, *range(2, len(rows.shape))))


def _as_dict(streams: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
    streams = tf.transpose(streams, (2, 0, 1))  # (stream, row, token)
    return {"inputs": streams[0::2], "targets": streams[1::2], "mask": mask}
