"""Learning rates that rise over the first steps, and then stay or fall."""

import math
from typing import Any

import keras
from keras import ops

from elmo_tf.trainers.config import SCHEDULES


def learning_rate_schedule(
    name: str, learning_rate: float, warmup_steps: int = 0, total_steps: int | None = None
) -> keras.optimizers.schedules.LearningRateSchedule:
    """The schedule of that name, with the other settings at their defaults.

    Args:
        name: "constant", "inverse_sqrt" or "cosine".
        learning_rate: float > 0, the highest rate.
        warmup_steps: int >= 0. Steps over which the rate rises; at least 1 for "inverse_sqrt".
        total_steps: int or None. All steps, those of the rise included. Needed for "cosine", and
            unused by the others.

    Raises:
        ValueError: no schedule has that name, or a value is out of its range.
    """
    if name not in SCHEDULES:
        raise ValueError(f"`schedule` must be one of {', '.join(SCHEDULES)}. Received: {name!r}")
    if name == "constant":
        return ConstantWithWarmup(learning_rate, warmup_steps)
    if name == "inverse_sqrt":
        return InverseSqrtWithWarmup(learning_rate, warmup_steps)
    return CosineWithWarmup(learning_rate, warmup_steps, total_steps)


class _WithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises in a straight line over `warmup_steps`."""

    _fewest_warmup_steps = 0

    def __init__(self, learning_rate: float, warmup_steps: int):
        super().__init__()
        _check_rate(learning_rate)
        _check_steps("warmup_steps", warmup_steps, least=self._fewest_warmup_steps)
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def _risen(self, count: Any) -> Any:
        """The rate of step `count`, as far as it has risen."""
        return self.learning_rate * ops.minimum(count / max(self.warmup_steps, 1), 1.0)

    def get_config(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="elmo_tf")
class ConstantWithWarmup(_WithWarmup):
    """A rate that rises in a straight line, and stays.

    `rate = learning_rate · min(1, t / warmup_steps)` in step `t`, counted from 1.

    Args:
        learning_rate: float > 0, the highest rate.
        warmup_steps: int >= 0. Steps over which the rate rises. Defaults to 0: none.

    Call arguments:
        step: int scalar. Steps before this one: the optimizer's `iterations`, `t - 1`.

    Returns:
        float32 scalar.

    Raises:
        ValueError: a value out of its range.
    """

    def __init__(self, learning_rate: float, warmup_steps: int = 0):
        super().__init__(learning_rate, warmup_steps)

    def __call__(self, step: Any) -> Any:
        return self._risen(_count(step))


@keras.saving.register_keras_serializable(package="elmo_tf")
class InverseSqrtWithWarmup(_WithWarmup):
    """A rate that rises in a straight line, and falls with the square root of the step.

    `rate = learning_rate · min(t / warmup_steps, sqrt(warmup_steps / t))` in step `t`, counted
    from 1.

    Args:
        learning_rate: float > 0, the highest rate, that of step `warmup_steps`.
        warmup_steps: int >= 1. Steps over which the rate rises.

    Call arguments:
        step: int scalar. Steps before this one: the optimizer's `iterations`, `t - 1`.

    Returns:
        float32 scalar.

    Raises:
        ValueError: a value out of its range.

    Source: Vaswani et al. 2017, section 5.3, with the highest rate as the scale.
    """

    _fewest_warmup_steps = 1

    def __call__(self, step: Any) -> Any:
        count = _count(step)
        fallen = self.learning_rate * ops.sqrt(self.warmup_steps / count)
        return ops.minimum(self._risen(count), fallen)


@keras.saving.register_keras_serializable(package="elmo_tf")
class CosineWithWarmup(_WithWarmup):
    """A rate that rises in a straight line, and falls along half a cosine.

    `rate = learning_rate · min(1, t / warmup_steps) · (e + (1 - e) · (1 + cos(pi · p)) / 2)` in
    step `t`, counted from 1, where `e` is `final_fraction` and
    `p = clip((t - warmup_steps) / (total_steps - warmup_steps), 0, 1)` is how far the fall has got.

    Args:
        learning_rate: float > 0, the highest rate, that of step `warmup_steps`.
        warmup_steps: int >= 0. Steps over which the rate rises.
        total_steps: int > `warmup_steps`. The step from which the rate stays.
        final_fraction: float, 0 to 1. The last rate, as a part of the highest. Defaults to 0.1.

    Call arguments:
        step: int scalar. Steps before this one: the optimizer's `iterations`, `t - 1`.

    Returns:
        float32 scalar.

    Raises:
        ValueError: a value out of its range.

    Source: Loshchilov and Hutter 2017, without restarts.
    """

    def __init__(
        self,
        learning_rate: float,
        warmup_steps: int,
        total_steps: int,
        final_fraction: float = 0.1,
    ):
        super().__init__(learning_rate, warmup_steps)
        _check_steps("total_steps", total_steps, warmup_steps + 1, ", more than `warmup_steps`")
        if not 0 <= final_fraction <= 1:
            raise ValueError(f"`final_fraction` must be from 0 to 1. Received: {final_fraction}")
        self.total_steps = total_steps
        self.final_fraction = final_fraction

    def __call__(self, step: Any) -> Any:
        count = _count(step)
        fallen = (count - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        wave = (1 + ops.cos(math.pi * ops.clip(fallen, 0, 1))) / 2
        fraction = self.final_fraction + (1 - self.final_fraction) * wave
        return self._risen(count) * fraction

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "total_steps": self.total_steps,
            "final_fraction": self.final_fraction,
        }


def _count(step: Any) -> Any:
    """The number of a step, counted from 1: Keras counts from 0, where the rate would be 0."""
    return ops.cast(step, "float32") + 1


def _check_rate(learning_rate: Any) -> None:
    is_number = isinstance(learning_rate, int | float) and not isinstance(learning_rate, bool)
    if not is_number or not learning_rate > 0 or math.isinf(learning_rate):
        raise ValueError(
            f"`learning_rate` must be a finite number above 0. Received: {learning_rate!r}"
        )


def _check_steps(name: str, steps: Any, least: int, reason: str = "") -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}{reason}. Received: {steps!r}"
        )
