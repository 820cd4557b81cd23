"""Word sense disambiguation by the nearest sense vector in each layer, and its F1."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.vectors import check_all_layers, unit_vectors
from elmo_tf.evaluation.sense_corpus import POS_OF_TAG, LemmaPos, SenseInstance, SenseSentence
from elmo_tf.logs import progress_over

# In layer 0 a token has the same vector in every sentence, so that means of different senses may
# differ only by rounding errors.
_TOLERANCE = 1e-6

Answers = Mapping[str, Mapping[str, Mapping[str, str | None]]]


def evaluate_senses(
    embedder: Embedder,
    train: Sequence[SenseSentence],
    tests: Mapping[str, Sequence[SenseSentence]],
    inventory: Mapping[LemmaPos, Sequence[str]],
) -> dict[str, Any]:
    """Disambiguates words by the nearest mean vector of a sense in the training data.

    `sense(w) = argmax_s cos(h(w), mean_{instances of s} h)`, separately for each layer, over the
    senses that w's lemma and part of speech have in the training data. If there are none, the
    answer is the first sense of the inventory; if the inventory lacks the lemma, there is no
    answer. Senses of the training data need not be in the inventory. If several senses are equally
    near, the most frequent one is the answer.

    The paper does not name its measure; the cosine is our choice.

    Args:
        embedder: an `Embedder` with `layers="all"`, or a `VectorSource`.
        train: training sentences, see `read_sense_corpus`.
        tests: the sentences of each test set, by its name.
        inventory: see `read_inventory`.

    Returns:
        A dict: "f1", for each method the F1 of each test set, and of all of them together by part
        of speech and in "all" (None without instances); "instances", the number of instances
        of each of these; and "answers", the sense key (or None) of each instance id by test set
        and method. The methods are "first_sense" (of the inventory), "most_frequent" (sense of the
        training data), "layer_0", and so on.

    Raises:
        ValueError: `embedder` does not return all layers, there is no test set, or vectors are not
            finite.

    Source: Peters et al. 2018, section 5.3; Melamud et al. 2016.
    """
    check_all_layers(embedder)
    if not tests:
        raise ValueError("There is no test set.")
    sentences = itertools.chain.from_iterable(tests.values())
    lemmas = {instance.lemma_pos for sentence in sentences for instance in sentence.instances}
    shown = progress_over(train, len(train), "training", "sentences")
    senses = mean_sense_vectors(instance_vectors(embedder, shown, lemmas), inventory)
    methods = ["first_sense", "most_frequent"]
    methods += [f"layer_{layer}" for layer in range(embedder.num_layers)]
    answers = {name: {method: {} for method in methods} for name in tests}
    for name, test in tests.items():
        shown = progress_over(test, len(test), f"testing on {name}", "sentences")
        for instance, vectors in instance_vectors(embedder, shown, lemmas):
            first = next(iter(inventory.get(instance.lemma_pos, ())), None)
            found = [first] * (len(methods) - 1)
            if instance.lemma_pos in senses:
                keys, units = senses[instance.lemma_pos]
                cosines = np.einsum("lsf,lf->ls", units, unit_vectors(vectors))
                is_best = cosines >= cosines.max(axis=1, keepdims=True) - _TOLERANCE
                found = [keys[0], *(keys[index] for index in is_best.argmax(axis=1))]
            for method, sense in zip(methods, [first, *found], strict=True):
                answers[name][method][instance.id] = sense
    return {**f1_table(tests, answers), "answers": answers}


def f1_table(tests: Mapping[str, Sequence[SenseSentence]], answers: Answers) -> dict[str, Any]:
    """Scores answers; see `evaluate_senses` for the arguments and the result.

    `F1 = 2 · correct / (answered + instances)`. An answer is correct if it is one of the gold keys.

    Source: Raganato et al. 2017, and the framework's `Scorer`.
    """
    columns: dict[str, list[tuple[str, SenseInstance]]] = {
        name: [(name, instance) for sentence in test for instance in sentence.instances]
        for name, test in tests.items()
    }
    together = [pair for pairs in columns.values() for pair in pairs]
    for pos in POS_OF_TAG.values():
        columns[pos] = [pair for pair in together if pair[1].pos == pos]
    columns["all"] = together
    scores: dict[str, dict[str, float | None]] = {}
    for method in next(iter(answers.values())):
        scores[method] = {}
        for column, pairs in columns.items():
            given = [(answers[name][method][one.id], one.senses) for name, one in pairs]
            num_correct = sum(sense in gold for sense, gold in given)
            num_answered = sum(sense is not None for sense, _ in given)
            f1 = 2 * num_correct / (num_answered + len(given)) if given else None
            scores[method][column] = f1
    return {"instances": {name: len(pairs) for name, pairs in columns.items()}, "f1": scores}


def instance_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[SenseInstance, np.ndarray]]:
    """Yields the instances of some lemmas, with the mean vectors of their tokens.

    The vectors are (layer, feature). Sentences without such an instance are not embedded.
    """
    wanted = (
        (tokens, found)
        for tokens, instances in sentences
        if (found := [instance for instance in instances if instance.lemma_pos in lemmas])
    )
    embedded, needed = itertools.tee(wanted)
    arrays = embedder.embed(tokens for tokens, _ in embedded)
    for array, (_, instances) in zip(arrays, needed, strict=True):
        for one in instances:
            vectors = array[:, one.first : one.end].mean(axis=1)
            if not np.isfinite(vectors).all():
                raise ValueError(
                    f"Vectors of {one.id!r} are not finite (NaN or infinity): the model's "
                    "weights are damaged or far too large."
                )
            yield one, vectors


def mean_sense_vectors(
    instances: Iterable[tuple[SenseInstance, np.ndarray]],
    inventory: Mapping[LemmaPos, Sequence[str]],
) -> dict[LemmaPos, tuple[list[str], np.ndarray]]:
    """Averages the vectors (layer, feature) of the instances of each sense.

    An instance with several gold keys counts for each of them.

    Returns:
        For each lemma its sense keys, the most frequent first, and their mean vectors of length 1,
        float32 (layer, sense, feature). The order of the inventory resolves ties of frequency;
        senses that it lacks come last.
    """
    sums: defaultdict[LemmaPos, dict[str, np.ndarray]] = defaultdict(dict)
    counts: Counter[tuple[LemmaPos, str]] = Counter()
    for instance, vectors in instances:
        of_lemma = sums[instance.lemma_pos]
        for sense in instance.senses:
            counts[instance.lemma_pos, sense] += 1
            of_lemma[sense] = of_lemma[sense] + vectors if sense in of_lemma else vectors
    senses = {}
    for lemma, of_lemma in sums.items():
        order = [*inventory.get(lemma, ()), *of_lemma]
        keys = sorted(of_lemma, key=lambda sense: (-counts[lemma, sense], order.index(sense)))
        # The length of a sum does not matter.
        senses[lemma] = keys, unit_vectors(np.stack([of_lemma[sense] for sense in keys], axis=1))
    return senses
