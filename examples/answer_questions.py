"""Trains a question answering model (BiDAF) on word vectors and ELMo.

    python examples/answer_questions.py --train train.json --dev dev.json

`elmo-tf task train` also caches the biLM's layers and resumes.
"""

import argparse

import keras

from elmo_tf import Elmo
from elmo_tf.tasks import BiDAF, WordEmbedding
from elmo_tf.tasks.question_answering import Question, read_questions
from elmo_tf.tasks.scores import answer_scores


def new_model(train: list[Question], elmo: Elmo) -> BiDAF:
    """Returns a model for the words of `train`."""
    both = (tokens for one in train for tokens in (one.passage_tokens, one.question_tokens))
    return BiDAF([WordEmbedding.from_texts(both, 50)], elmo, placement="both", units=60)


def texts(questions: list[Question]) -> dict[str, list[list[str]]]:
    """The tokens of the passages and of the questions."""
    return {name: [getattr(one, f"{name}_tokens") for one in questions] for name in BiDAF.texts}


def answers(questions: list[Question], spans: list[tuple[int, int]]) -> list[str]:
    """The parts of the passages from the first token of a span to the last."""
    return [
        one.passage[one.passage_offsets[first][0] : one.passage_offsets[last][1]]
        for one, (first, last) in zip(questions, spans, strict=True)
    ]


def main() -> None:
    """Trains a model and prints its scores on held-out questions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, metavar="FILE", help="JSON, as in SQuAD 1.1")
    parser.add_argument("--dev", required=True, metavar="FILE", help="held-out questions")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    arguments = parser.parse_args()
    train, dev = (read_questions(file) for file in (arguments.train, arguments.dev))
    model = new_model(train, Elmo.from_pretrained(arguments.elmo, num_mixes=2))
    model.compile(keras.optimizers.Adam(0.001, global_clipnorm=5.0))
    spans = [one.answer_spans[0] for one in train]
    model.fit(texts(train), spans, batch_size=32, epochs=arguments.epochs, verbose=2)

    found = answers(dev, model.answer_spans(texts(dev)))
    print(answer_scores([one.answers for one in dev], found))


if __name__ == "__main__":
    main()
