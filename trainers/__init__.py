"""Training: settings, text streams, training steps, optimizers, and the main functions."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "PretrainConfig": "elmo_tf.trainers.config",
    "TaskConfig": "elmo_tf.tasks.config",
    "evaluate_task": "elmo_tf.trainers.tasks.predict",
    "load_task": "elmo_tf.tasks.registry",
    "predict_task": "elmo_tf.trainers.tasks.predict",
    "pretrain": "elmo_tf.trainers.pretraining",
    "sweep_task": "elmo_tf.trainers.tasks.sweep",
    "train_task": "elmo_tf.trainers.tasks.training",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
