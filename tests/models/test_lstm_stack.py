import numpy as np

from elmo_tf.config import LSTMConfig
from elmo_tf.models.lstm_stack import LSTMStack
from reference import lstm as reference

DIM, PROJECTION, TOKENS = 7, 4, 5


def test_the_skip_connection_adds_the_dropped_input():
    stack = LSTMStack(LSTMConfig(DIM, PROJECTION, 3, cell_clip=0.6, proj_clip=0.3))
    stack.build((None, None, PROJECTION))
    rng = np.random.default_rng(0)
    stack.set_weights([rng.normal(0, 0.7, w.shape) for w in stack.weights])
    inputs = rng.normal(size=(1, TOKENS, PROJECTION)).astype(np.float32)

    outputs, _ = stack(inputs, dropout_fn=lambda x: 0.5 * x)

    expected = inputs[0].astype(np.float64)
    for index, lstm in enumerate(stack.lstms):
        dropped = 0.5 * expected
        kernel, recurrent_kernel, bias, projection = (w.numpy() for w in lstm.weights)
        expected, _, _ = reference.sequence(
            *(dropped, np.zeros(PROJECTION), np.zeros(DIM)),
            matrix=np.concatenate([kernel, recurrent_kernel]),
            bias=bias,
            projection=projection,
            cell_clip=0.6,
            proj_clip=0.3,
        )
        expected = expected + dropped if index else expected
        np.testing.assert_allclose(outputs[index][0], expected, atol=2e-6)
