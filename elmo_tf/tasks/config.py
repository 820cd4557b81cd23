"""The settings of a task training run."""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pydantic
from cyclopts import Parameter

from elmo_tf.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Rate,
    RunSettings,
    Text,
    Texts,
    checked_dataclass,
)
from elmo_tf.tasks.tag_schemes import SCHEMES

MODEL_FILE = "model.keras"
RECORD_FILE = "task.json"
# Where a task model reads ELMo, and the number of places.
PLACEMENTS = {"input": 1, "output": 1, "both": 2, "none": 0}
# In the work directory of an `SRLTagger`: that of the tagger that finds predicates.
PREDICATES_FOLDER = "predicates"


class _Settings(NamedTuple):
    """A task's models, the default first; its settings that others lack; the dropout of ELMo."""

    models: tuple[str, ...]
    own: tuple[str, ...]
    # As published. The models of the other tasks apply dropout to all token vectors.
    elmo_dropout: float = 0.0


_COLUMNS = ("format", "token_column", "tag_column", "tokenizer")
_LABELS = ("metric", "class_weight")
# Those of each task of `registry.TASKS`.
_TASKS = {
    "ner": _Settings(("crf",), (*_COLUMNS, "scheme")),
    "pos": _Settings(("crf",), _COLUMNS),
    "sst": _Settings(("bcn", "bilstm"), ("phrases", "binary", *_LABELS)),
    "snli": _Settings(("esim",), ("tokenizer", *_LABELS)),
    "classify": _Settings(
        ("bcn", "bilstm"), ("text_column", "label_column", "tokenizer", *_LABELS)
    ),
    "squad": _Settings(("bidaf",), ("max_tokens",), 0.5),
    "srl": _Settings(("srl",), ("max_tokens", "tokenizer"), 0.1),
    "coref": _Settings(("coref",), ("window",), 0.5),
}
_MODELS = dict.fromkeys(model for task in _TASKS.values() for model in task.models)
_LEARNING_RATES = {"adam": 0.001, "adadelta": 1.0}


# The name of a column, or its number.
_Column = Annotated[Text, pydantic.BeforeValidator(str)]


@checked_dataclass
class TaskConfig(RunSettings):
    """The settings of a task training run.

    With `resume`, settings that are not given are those of the run in `workdir`.

    Args:
        task: ner: named entities (CoNLL columns); pos: parts of speech (CoNLL columns); sst:
            sentiment (bracketed trees); snli: entailment (JSON lines); classify: text
            classification (.csv, .tsv or .jsonl); squad: question answering (JSON of SQuAD 1.1);
            srl: semantic roles (columns of CoNLL or PropBank); coref: coreference (CoNLL columns).
        train: files of training examples.
        dev: files of held-out examples; they select the best epoch.
        workdir: directory for the model of the best epoch, the scores and the log.
        share: fraction of the training examples to train on, above 0 and at most 1; the seed
            selects the examples.
        resume: resume after the last epoch in the work directory. Settings that are not given are
            those of the run; only a few may differ. If there is no epoch yet, start from the
            beginning.
        overwrite: delete the results in the work directory, and start from the beginning.
        elmo: directory, archive, URL or name of a checkpoint, such as small-en, see
            `elmo_tf.load_bilm`; by default a model without ELMo.
        placement: where to concatenate ELMo: with the word vectors, with the output of the task's
            LSTM, or with both.
        mix: how to combine the layers of the biLM: with trained mixing weights, the top layer
            only, or their average.
        mix_l2: L2 penalty on the trained mixing weights, at least 0; with 1 the weights stay almost
            equal.
        elmo_dropout: dropout rate of the ELMo vectors, in addition to the dropout of the model,
            from 0 to below 1; by default 0.5 for squad and coref, 0.1 for srl, 0 for others.
        layer_norm: normalize each layer over the batch before the mix.
        fine_tune: also train the biLM, which is slower.
        precision: precision of the matrix products of a frozen biLM; bfloat16 is faster on
            processors with bfloat16 instructions.
        model: architecture of the task model; by default crf for ner and pos, bcn for sst and
            classify (or bilstm), esim for snli, bidaf for squad, srl for srl, coref for coref.
        word_vectors: initial word vectors: a text file of GloVe, word2vec or fastText; may be .gz;
            by default random initialization.
        word_dim: width of the trained word vectors; 0 for none; ignored with word_vectors.
        lowercase: look up word vectors in lower case.
        freeze_words: do not train the vectors of word_vectors.
        characters: whether the task model has a character CNN.
        units: width of each direction of the task's LSTMs; for ner and pos, the second LSTM has
            half of it; by default as published.
        dropout: dropout rate of the task model, from 0 to below 1; by default as published: 0.5;
            0.2 for squad and coref, 0.1 for srl.
        model_options: further arguments of the model's class, such as num_layers=4 for srl.
        format: ner and pos: file format, columns or CoNLL-U; by default chosen by the file name.
        token_column: ner and pos: column of the tokens, counted from 1; by default 1, or 2 for
            conllu.
        tag_column: ner and pos: column of the tags, counted from 1; by default the last, or 4 for
            conllu.
        scheme: ner: tagging scheme of the files and of predictions; IOB1 also accepts broken BIO,
            and predicts BIO.
        phrases: sst: also train on phrases of at least this many tokens; by default sentences only.
        binary: sst: predict two labels (negative, positive), and leave neutral sentences out.
        text_column: classify: name of the text column, or its number, counted from 1.
        label_column: classify: name of the label column, or its number, counted from 1; if both
            columns are numbers, the file has no header.
        tokenizer: ner, pos, snli, classify and srl: split raw text by the tokenizer of this code,
            such as en or ko-morph; without a code, by that of the biLM. Labeled words stay whole:
            the layers of a word are the mean over its tokens.
        metric: sst, snli and classify: score that selects the best epoch; by default accuracy.
        class_weight: sst, snli and classify: weight the loss of examples; balanced: inversely
            proportional to the frequency of their label.
        max_tokens: squad and srl: leave out training examples with more tokens; by default 100 for
            srl, no limit for squad.
        window: coref: number of sentences per step; longer documents give a random window of them.
        optimizer: optimizer of the task model; adadelta, as published for squad and srl, needs many
            epochs.
        learning_rate: learning rate, above 0; by default 0.001, or 1 for adadelta.
        ema: evaluate and save a moving average of the weights, with at most this decay per step,
            such as 0.999; 0 for none.
        clip_norm: maximum of the global gradient norm, above 0; larger gradients are scaled down.
        batch_size: examples per step, also of predictions; for coref, always one document.
        epochs: maximum number of epochs.
        patience: stop after this many epochs without a better score on the held-out examples.
        seed: random seed of initial weights, order of examples and dropout, from 0 to 4294967295.

    Raises:
        ValueError: a value is out of its range, or two settings exclude each other.

    Source: Peters et al. 2018, sections 3.3 and 4, and the supplement.
    """

    RECORD: ClassVar = RECORD_FILE
    EXCLUSIVE: ClassVar = (("resume", "overwrite"),)
    # May change when a run is resumed; but not the contents of the checkpoint and word vectors.
    CHANGEABLE: ClassVar = (
        *("train", "dev", "workdir", "resume", "overwrite", "elmo", "word_vectors", "epochs"),
        "patience",
    )

    task: Literal[*_TASKS]
    train: Annotated[Texts, pydantic.Field(min_length=1)]
    dev: Annotated[Texts, pydantic.Field(min_length=1)]
    workdir: Text
    share: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    resume: bool = False
    overwrite: bool = False
    elmo: Any = None
    placement: Literal[*PLACEMENTS] = "input"
    mix: Literal["learned", "top", "average"] = "learned"
    mix_l2: NonNegative = 0.001
    elmo_dropout: Rate | None = None
    layer_norm: bool = False
    fine_tune: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    model: Literal[*_MODELS] | None = None
    word_vectors: Text | None = None
    word_dim: Natural = 50
    lowercase: bool = False
    freeze_words: bool = False
    characters: Annotated[bool, Parameter(name=(), negative="--no-characters")] = True
    units: Count | None = None
    dropout: Rate | None = None
    model_options: Annotated[Texts, Parameter(name="--set")] = ()
    format: Annotated[Literal["conll", "conllu"] | None, Parameter(name="--input-format")] = None
    token_column: Count | None = None
    tag_column: Count | None = None
    scheme: Literal[*SCHEMES] = "BIO"
    phrases: Count | None = None
    binary: bool = False
    text_column: _Column = "text"
    label_column: _Column = "label"
    tokenizer: Annotated[Text | None, Parameter(name="--tokenize")] = None
    metric: Literal["accuracy", "f1_macro"] | None = None
    class_weight: Literal["balanced"] | None = None
    max_tokens: Count | None = None
    window: Count = 50
    optimizer: Literal[*_LEARNING_RATES] = "adam"
    learning_rate: Positive | None = None
    ema: Rate = 0.0
    clip_norm: Positive = 5.0
    batch_size: Count = 32
    epochs: Count = 50
    patience: Count = 5
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 0

    def __post_init__(self):
        of_task = _TASKS[self.task]
        super().__post_init__()
        self._fill(
            model=of_task.models[0],
            elmo_dropout=of_task.elmo_dropout,
            learning_rate=_LEARNING_RATES[self.optimizer],
        )
        if self.model not in of_task.models:
            raise ValueError(
                f"`model` must be one of {', '.join(of_task.models)} for {self.task}. "
                f"Received: {self.model!r}"
            )
        of_others = {name for task in _TASKS.values() for name in task.own} - {*of_task.own}
        for name in sorted(of_others):
            if getattr(self, name) != type(self).__pydantic_fields__[name].default:
                raise ValueError(f"`{name}` is not for --task {self.task}.")
        if self.fine_tune and (self.elmo is None or self.placement == "none"):
            raise ValueError("`fine_tune` needs `elmo` and a `placement` other than none.")
        if self.freeze_words and self.word_vectors is None:
            raise ValueError("`freeze_words` needs `word_vectors`.")
        if self.phrases is not None and self.share < 1:
            raise ValueError(
                "`share` and `phrases` exclude each other: `share` selects sentences, `phrases` "
                "adds parts of all sentences. Pass one of them."
            )
