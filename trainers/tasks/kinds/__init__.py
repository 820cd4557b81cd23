"""The kinds of tasks: how each reads its files, builds its model, and is scored.

To add a task, write a subclass of `TaskKind`, add it to `KINDS`, and add the task to `TASKS` and
`MODELS` in `config.py`.
"""

from elmo_tf.trainers.tasks.kinds.base import TaskKind as TaskKind
from elmo_tf.trainers.tasks.kinds.classification import Classification, Entailment, Sentiment
from elmo_tf.trainers.tasks.kinds.documents import Coreference
from elmo_tf.trainers.tasks.kinds.questions import QuestionAnswering
from elmo_tf.trainers.tasks.kinds.roles import SemanticRoles
from elmo_tf.trainers.tasks.kinds.tagging import NamedEntities, Tagging

KINDS: dict[str, TaskKind] = {
    "ner": NamedEntities(),
    "pos": Tagging(),
    "sst": Sentiment(),
    "snli": Entailment(),
    "classify": Classification(),
    "squad": QuestionAnswering(),
    "srl": SemanticRoles(),
    "coref": Coreference(),
}
