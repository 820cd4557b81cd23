"""The settings of a task training run."""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator

from elmo_tf.config import PLACEMENTS
from elmo_tf.config_checks import check_choice
from elmo_tf.settings import (
    ClipNorm,
    Count,
    MovingAverage,
    Natural,
    NonNegative,
    OverwriteRun,
    Positive,
    Rate,
    RunSettings,
    Text,
    Texts,
    changeable,
    checked_dataclass,
    setting,
    settings_as_json,
    settings_of,
)

MODEL_FILE = "model.keras"
RECORD_FILE = "task.json"
# In the work directory of an `SRLTagger`: that of the tagger that finds predicates.
PREDICATES_FOLDER = "predicates"


class _Facts(NamedTuple):
    """What the settings need of a task of `registry.TASKS`.

    files: description of its files.
    models: the names of its models, the default first.
    elmo_dropout: default dropout rate of the ELMo vectors, as published. The models of tasks with 0
        apply dropout to all token vectors.
    """

    files: str
    models: tuple[str, ...]
    elmo_dropout: float = 0.0


_TASKS = {
    "ner": _Facts("named entities (CoNLL columns)", ("crf",)),
    "pos": _Facts("parts of speech (CoNLL columns)", ("crf",)),
    "sst": _Facts("sentiment (bracketed trees)", ("bcn", "bilstm")),
    "snli": _Facts("entailment (JSON lines)", ("esim",)),
    "classify": _Facts("text classification (.tsv or .csv)", ("bcn", "bilstm")),
    "squad": _Facts("question answering (JSON of SQuAD 1.1)", ("bidaf",), 0.5),
    "srl": _Facts("semantic roles (columns of CoNLL or PropBank)", ("srl",), 0.1),
    "coref": _Facts("coreference (CoNLL columns)", ("coref",), 0.5),
}
_MODELS = dict.fromkeys(model for task in _TASKS.values() for model in task.models)
# Settings that only some tasks have.
_ONLY_FOR = {
    "format": ("ner", "pos"),
    "token_column": ("ner", "pos"),
    "tag_column": ("ner", "pos"),
    "scheme": ("ner",),
    "phrases": ("sst",),
    "binary": ("sst",),
    "text_column": ("classify",),
    "label_column": ("classify",),
    "max_tokens": ("squad", "srl"),
    "window": ("coref",),
    "batch_size": tuple(task for task in _TASKS if task != "coref"),
}
_LEARNING_RATES = {"adam": 0.001, "adadelta": 1.0}


def current_mix(mix: Any) -> Any:
    """The value of `mix`. Version 0.2 called learned mixing weights "learnt"."""
    return "learned" if mix == "learnt" else mix


_Mix = Annotated[Literal["learned", "top", "average"], BeforeValidator(current_mix)]
# The name of a column, or its number.
_Column = Annotated[Text, BeforeValidator(lambda column: str(column))]


@checked_dataclass
class TaskConfig(RunSettings):
    """The settings of a task training run. Each field declares its range and meaning.

    `elmo` accepts everything that `elmo_tf.load_bilm` accepts.

    Raises:
        ValueError: a value is out of its range, or two settings exclude each other.

    Source: Peters et al. 2018, sections 3.3 and 4, and the supplement.
    """

    RECORD: ClassVar = RECORD_FILE
    EXCLUSIVE: ClassVar = (("resume", "overwrite"),)

    task: Literal[*_TASKS] = setting(
        group="task and results",
        help="; ".join(f"{name}: {task.files}" for name, task in _TASKS.items()),
    )
    train: Texts = changeable(min_length=1, help="files of training examples")
    dev: Texts = changeable(
        min_length=1, help="files of held-out examples; they select the best epoch"
    )
    workdir: Text = changeable(
        metavar="DIR", help="directory for the model of the best epoch, the scores and the log"
    )
    share: float = setting(
        1.0,
        "fraction of the training examples to train on, above 0 and at most 1; --seed selects "
        "the examples",
        gt=0,
        le=1,
    )
    resume: bool = changeable(
        False,
        "resume after the last epoch in --workdir, with its settings unless others are given; "
        "if there is no epoch yet, start from the beginning",
    )
    overwrite: OverwriteRun = False
    # Its content must not change, nor that of `word_vectors`.
    elmo: Any = changeable(
        None,
        "directory, archive, URL or name of a checkpoint, such as small-en",
        group="ELMo",
        metavar="CHECKPOINT",
        default_help="a model without ELMo; required for sweep",
    )
    placement: Literal[*PLACEMENTS] = setting(
        "input",
        "where to concatenate ELMo: with the word vectors, with the output of the task's "
        "LSTM, or with both",
    )
    mix: _Mix = setting(
        "learned",
        "how to combine the layers of the biLM: with trained mixing weights, the top layer "
        "only, or their average",
    )
    mix_l2: NonNegative = setting(
        0.001,
        "L2 penalty on the trained mixing weights, at least 0; with 1 the weights stay almost "
        "equal",
    )
    elmo_dropout: Rate | None = setting(
        None,
        "dropout rate of the ELMo vectors, in addition to --dropout, from 0 to below 1",
        default_help="0.5 for squad and coref, 0.1 for srl, 0 for others",
    )
    layer_norm: bool = setting(False, "normalize each layer over the batch before the mix")
    fine_tune: bool = setting(False, "also train the biLM, which is slower")
    precision: Literal["float32", "bfloat16"] = setting(
        "float32",
        "precision of the matrix products of a frozen biLM; bfloat16 is faster on processors "
        "with bfloat16 instructions",
    )
    model: Literal[*_MODELS] | None = setting(
        None,
        "architecture of the task model",
        group="model",
        default_help=", ".join(
            f"{next(iter(task.models))} for {name}" for name, task in _TASKS.items()
        ),
    )
    word_vectors: Text | None = changeable(
        None,
        "initial word vectors: a text file of GloVe, word2vec or fastText; may be .gz",
        default_help="random initialization",
    )
    word_dim: Natural = setting(
        50, "width of the trained word vectors; 0 for none; ignored with --word-vectors"
    )
    lowercase: bool = setting(False, "look up word vectors in lower case")
    freeze_words: bool = setting(False, "do not train the vectors of --word-vectors")
    characters: bool = setting(
        True, "omit the character CNN of the task model", name="--no-characters"
    )
    units: Count | None = setting(
        None,
        "width of each direction of the task's LSTMs; for ner and pos, the second LSTM has "
        "half of it",
        default_help="as published",
    )
    dropout: Rate | None = setting(
        None,
        "dropout rate of the task model, from 0 to below 1",
        default_help="as published: 0.5; 0.2 for squad and coref, 0.1 for srl",
    )
    model_options: Texts = setting(
        (),
        "further arguments of the model's class, such as num_layers=4 for srl",
        name="--set",
        metavar="NAME=VALUE",
    )
    format: Literal["conll", "conllu"] | None = setting(
        None,
        "ner and pos: file format, columns or CoNLL-U",
        group="files",
        name="--input-format",
        default_help="by the file name",
    )
    token_column: Count | None = setting(
        None, "ner and pos: column of the tokens, counted from 1", default_help="1, or 2 for conllu"
    )
    tag_column: Count | None = setting(
        None,
        "ner and pos: column of the tags, counted from 1",
        default_help="the last, or 4 for conllu",
    )
    scheme: Literal["BIO", "IOB1", "BIOUL"] = setting(
        "BIO", "ner: tagging scheme of the files; IOB1 also accepts broken BIO"
    )
    phrases: Count | None = setting(
        None, "sst: also train on phrases of at least N tokens", default_help="sentences only"
    )
    binary: bool = setting(
        False, "sst: predict two labels (negative, positive), and leave neutral sentences out"
    )
    text_column: _Column = setting(
        "text", "classify: name of the text column, or its number, counted from 1", metavar="NAME"
    )
    label_column: _Column = setting(
        "label",
        "classify: name of the label column, or its number, counted from 1; if both columns "
        "are numbers, the file has no header",
        metavar="NAME",
    )
    max_tokens: Count | None = setting(
        None,
        "squad and srl: leave out training examples with more tokens",
        default_help="100 for srl, no limit for squad",
    )
    window: Count = setting(
        50, "coref: number of sentences per step; longer documents give a random window of them"
    )
    optimizer: Literal[*_LEARNING_RATES] = setting(
        "adam",
        "optimizer; squad and srl were published with adadelta, which needs many epochs",
        group="training",
    )
    learning_rate: Positive | None = setting(
        None, "learning rate, above 0", default_help="0.001, or 1 for adadelta"
    )
    ema: MovingAverage = 0.0
    clip_norm: ClipNorm = 5.0
    batch_size: Count = setting(32, "examples per step; for coref, always one document")
    epochs: Count = changeable(50, "maximum number of epochs")
    patience: Count = changeable(5, "stop after N epochs without a better score on --dev")
    seed: int = setting(
        0,
        "random seed of initial weights, order of examples and dropout, from 0 to 4294967295",
        ge=0,
        lt=2**32,
    )

    def __post_init__(self):
        task = _TASKS[self.task]
        self._fill(
            model=next(iter(task.models)),
            elmo_dropout=task.elmo_dropout,
            learning_rate=_LEARNING_RATES[self.optimizer],
        )
        check_choice(self.model, "model", task.models)
        self._check_together()
        self._check_task_settings()

    def _check_together(self) -> None:
        if self.task == "coref" and self.placement in ("output", "both"):
            raise ValueError(f"`placement` must be input or none for coref, not {self.placement}.")
        if self.fine_tune and self.elmo is None:
            raise ValueError("`fine_tune` needs `elmo`: without it there is no biLM to train.")
        if self.elmo is None and self.placement in ("output", "both"):
            raise ValueError(f"`placement` {self.placement} needs `elmo`.")
        has_embeddings = self.word_vectors is not None or self.word_dim or self.characters
        if not has_embeddings and (self.elmo is None or self.placement in ("output", "none")):
            raise ValueError(
                "The model has no input: pass `word_dim`, `word_vectors`, `characters`, or `elmo` "
                "with `placement` input or both."
            )
        if self.freeze_words and self.word_vectors is None:
            raise ValueError("`freeze_words` needs `word_vectors`.")
        if self.fine_tune and self.placement == "none":
            raise ValueError("`fine_tune` needs a `placement` other than none.")

    def _check_task_settings(self) -> None:
        for name, tasks in _ONLY_FOR.items():
            value = getattr(self, name)
            if self.task not in tasks and value != settings_of(type(self))[name].default:
                raise ValueError(
                    f"`{name}` is only for --task {' or '.join(tasks)}. "
                    f"Received: {value!r} for {self.task}"
                )
        if self.phrases is not None and self.share < 1:
            raise ValueError(
                "`share` and `phrases` exclude each other: `share` selects sentences, `phrases` "
                "adds parts of all sentences. Pass one of them."
            )
        columns = (self.text_column, self.label_column)
        if "0" in columns:
            raise ValueError("`text_column` and `label_column` count from 1. Received: 0")
        if columns[0] == columns[1]:
            raise ValueError(
                f"`text_column` and `label_column` must differ. Received: {columns[0]!r} for both"
            )

    def as_json(self) -> dict[str, Any]:
        """All settings with their defaults resolved."""
        return settings_as_json(self)
