"""The state of a run, all that is needed to go on exactly, in `workdir/state`."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from elmo_tf.trainers.steps import TrainStep

STATE_FOLDER = "state"


class RunState:
    """Saves and restores weights, optimizer, step, LSTM states, and the place in the text.

    A save takes effect when it is complete; a run killed while it saves goes on from the one
    before.

    Args:
        workdir: the work directory.
        train_step: holds all variables.
        windows: iterator over the training text.
    """

    def __init__(self, workdir: Path, train_step: TrainStep, windows: Any):
        optimizer = train_step.optimizer
        # Keras's variables are wrappers; what is saved are TensorFlow's own.
        checkpoint = tf.train.Checkpoint(
            weights={weight.path: weight.value for weight in train_step.model.weights},
            optimizer={variable.path: variable.value for variable in optimizer.variables},
            step=train_step.step,
            lstm_states=train_step.states,
            windows=windows,
        )
        self._manager = tf.train.CheckpointManager(
            checkpoint, str(workdir / STATE_FOLDER), max_to_keep=2, step_counter=train_step.step
        )

    def save(self) -> None:
        """Saves everything.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        try:
            self._manager.save()
        except tf.errors.OpError as error:
            raise OSError(
                f"Cannot save the state of the run in {self._manager.directory}: {error.message}"
            ) from None

    def restore(self) -> None:
        """Restores the last complete save, if there is one.

        Raises:
            ValueError: the save does not fit this run, or is damaged.
        """
        latest = self._manager.latest_checkpoint
        if latest is None:
            return
        try:
            self._manager.checkpoint.restore(latest).assert_consumed()
        except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
            # TensorFlow tells of a damaged file by an IndexError.
            reason = str(error).splitlines()[0]
            raise ValueError(f"Cannot go on from {latest}: {reason}") from None


def last_save(workdir: Path) -> str | None:
    """The last complete save of a run, if there is one."""
    return tf.train.latest_checkpoint(str(workdir / STATE_FOLDER))
