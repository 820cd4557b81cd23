"""Plots of training runs, token similarities, layer mixes and sample efficiency."""

from elmo_tf.evaluation.plots.mix_plot import Mix as Mix
from elmo_tf.evaluation.plots.mix_plot import draw_mixes as draw_mixes
from elmo_tf.evaluation.plots.mix_plot import mixes_of as mixes_of
from elmo_tf.evaluation.plots.sample_efficiency_plot import (
    draw_sample_efficiency as draw_sample_efficiency,
)
from elmo_tf.evaluation.plots.sample_efficiency_plot import read_sweep as read_sweep
from elmo_tf.evaluation.plots.similarity_plot import TokenSimilarities as TokenSimilarities
from elmo_tf.evaluation.plots.similarity_plot import draw_similarities as draw_similarities
from elmo_tf.evaluation.plots.similarity_plot import token_similarities as token_similarities
from elmo_tf.evaluation.plots.style import save_figure as save_figure
from elmo_tf.evaluation.plots.training_log import TrainingRun as TrainingRun
from elmo_tf.evaluation.plots.training_log import read_runs as read_runs
from elmo_tf.evaluation.plots.training_plot import draw_training as draw_training
