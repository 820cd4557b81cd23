import numpy as np
import pytest

from elmo_tf import Embedder, load_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation.comparison import compare, embedding_speeds
from elmo_tf.evaluation.perplexity import perplexity

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the cat sat on the mat", "the dog sat", "a cat", "on and on the cat sat"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="module")
def compared(trained, forward_directory, text):
    return compare(
        {"both": trained, "forward": forward_directory},
        [text],
        {"width": lambda embedder: {"of the mean": embedder.encode("the cat").shape[-1]}},
        num_turns=2,
        tokens_per_turn=4,
    )


def test_each_model_has_its_size_speeds_and_measures(compared, trained, forward_bilm):
    for name, model in (("both", load_bilm(trained)), ("forward", forward_bilm)):
        dim = model.config.output_dim
        num_parameters = sum(int(np.prod(weight.shape)) for weight in model.weights)
        assert compared[name]["size"] == {"parameters": num_parameters, "layers": 3, "dim": dim}
        assert compared[name]["width"] == {"of the mean": dim}
        assert len(compared[name]["tokens_per_second"]) == 2


def test_perplexity_requires_a_softmax_and_a_text(compared, trained, text):
    model = load_language_model(trained)
    expected = {**perplexity(model, [text]), "vocabulary": len(model.vocabulary)}

    assert compared["both"]["perplexity"] == expected
    assert compared["forward"]["perplexity"] is None
    without = compare({"both": trained})["both"]
    assert without["perplexity"] is without["tokens_per_second"] is None


def test_the_first_turn_is_not_timed(bilm):
    sentences = [["t"] * length for length in (1, 2, 3, 4, 5, 6)]
    embedder = Embedder(bilm)
    seen = []
    embedder.embed = lambda part: seen.append(part) or iter(())

    speeds = embedding_speeds({"a": embedder}, sentences, num_turns=2)

    assert len(speeds["a"]) == 2
    assert [[len(sentence) for sentence in part] for part in seen] == [[1, 4], [2, 5], [3, 6]]
    # Turns without sentences are skipped.
    assert len(embedding_speeds({"a": embedder}, sentences[:2], num_turns=3)["a"]) == 1
