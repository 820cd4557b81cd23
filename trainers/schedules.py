"""Learning rate schedules: a linear warm-up, then a constant or decreasing rate."""

from typing import Any

import keras
from keras import ops

_FINAL_FRACTION = 0.1  # of the highest rate, at the end of the cosine


def learning_rate_schedule(
    name: str, learning_rate: float, warmup_steps: int, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Creates a schedule by its name.

    Args:
        name: "constant"; "cosine", which decreases to a tenth of the rate (Loshchilov and Hutter
            2017); or "inverse_sqrt", which decreases with the inverse square root of the step
            (Vaswani et al. 2017).
        learning_rate: float > 0. The highest rate.
        warmup_steps: int >= 0. Steps during which the rate rises linearly, limited to half of all
            steps; at least 1 for "inverse_sqrt".
        total_steps: int >= 1. All steps, including the warm-up.
    """
    if name == "inverse_sqrt":
        return InverseSqrtWithWarmup(learning_rate, min(warmup_steps, max(total_steps // 2, 1)))
    warmup_steps = min(warmup_steps, total_steps // 2)
    return keras.optimizers.schedules.CosineDecay(
        # The rate of the first warm-up step is above 0.
        learning_rate / max(warmup_steps, 1),
        decay_steps=total_steps - warmup_steps,
        alpha=1.0 if name == "constant" else _FINAL_FRACTION,
        warmup_target=learning_rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )


class InverseSqrtWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises linearly, then decreases with the inverse square root of the step.

    `rate = learning_rate · min(t / warmup_steps, sqrt(warmup_steps / t))` in step `t`, counted
    from 1.

    Args:
        learning_rate: float > 0. The highest rate, reached at step `warmup_steps`.
        warmup_steps: int >= 1.

    Call arguments:
        step: int scalar. The optimizer's `iterations`, `t - 1`.

    Returns:
        float32 scalar.

    Source: Vaswani et al. 2017, section 5.3, scaled to the highest rate.
    """

    def __init__(self, learning_rate: float, warmup_steps: int):
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        count = ops.cast(step, "float32") + 1
        scale = ops.minimum(count / self.warmup_steps, ops.sqrt(self.warmup_steps / count))
        return self.learning_rate * scale
