"""Task models that read vectors from a file instead of a biLM."""

import json

import h5py
import numpy as np
import pytest

from elmo_tf.saved_models.exporting.task_exporting import export_task
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers import load_task
from elmo_tf.trainers.tasks.predict import evaluate_task, predict_task
from elmo_tf.trainers.tasks.training import train_task
from task_files import NER, SMALL, sentences

pytestmark = pytest.mark.usefixtures("eager_module")


def write_vectors(path, texts, num_layers=3, dim=7):
    """Writes a file in AllenNLP's layout: random vectors that differ between sentences."""
    texts = sorted({" ".join(text) for text in texts})
    with h5py.File(path, "w") as file:
        for number, text in enumerate(texts):
            rng = np.random.default_rng(number)
            shape = (num_layers, len(text.split()), dim)
            file[str(number)] = rng.normal(size=shape).astype(np.float32)
        index = json.dumps({text: str(number) for number, text in enumerate(texts)})
        file.create_dataset("sentence_to_index", (1,), h5py.string_dtype(), index)
    return path


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """A tagger whose only input is a file of vectors."""
    folder = tmp_path_factory.mktemp("vectors")
    file = write_vectors(folder / "old.hdf5", sentences(NER))
    settings = {**SMALL, "word_dim": 0, "characters": False, "cache": folder / "cache", "epochs": 2}
    config = TaskConfig(
        *("ner", files["ner"], files["ner"], folder / "ner"), vectors=f"old={file}", **settings
    )
    return config, train_task(config)


def test_evaluation_reads_the_training_vectors_or_a_given_file(trained, files, tmp_path):
    config, record = trained
    others = write_vectors(tmp_path / "new.hdf5", [["Anna", "sings"]])
    (tmp_path / "new.conll").write_text("Anna B-PER\nsings O\n")

    scores = evaluate_task(config.workdir, [files["ner"]])
    paths = config.workdir, tmp_path / "new.conll", tmp_path / "out.conll"
    number = predict_task(*paths, vectors=others)

    assert scores == record["best"]["dev"]
    assert record["settings"]["vectors"].endswith("old.hdf5")
    assert number == 1
    with pytest.raises(ValueError, match=r"old\.hdf5 has no vectors of the sentence 'Anna sings'"):
        evaluate_task(config.workdir, [tmp_path / "new.conll"])
    others = write_vectors(tmp_path / "wide.hdf5", sentences(NER), 2, 5)
    message = r"wide\.hdf5 has 2 layers of width 5\. The model .* 3 layers of width 7"
    with pytest.raises(ValueError, match=message):
        evaluate_task(config.workdir, [files["ner"]], vectors=others)


def test_a_model_trained_on_vectors_cannot_be_exported(trained, tmp_path):
    model = load_task(trained[0].workdir)

    with pytest.raises(ValueError, match="reads vectors of a file"):
        export_task(model, tmp_path)
    with pytest.raises(ValueError, match="pass them as `layers`"):
        model(["Anna sings"])
