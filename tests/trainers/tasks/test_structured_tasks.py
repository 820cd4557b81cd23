"""Question answering, SRL and coreference: training, scores, predictions and resuming."""

import json
import shutil

import pytest

from elmo_tf.tasks import BiDAF, CoreferenceModel
from elmo_tf.tasks.batches import Batches
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.coreference.reader import read_documents
from elmo_tf.tasks.coreference.specification import DocumentBatches, part_of_document
from elmo_tf.tasks.specification import specification_of
from elmo_tf.trainers.tasks.predict import evaluate_task, predict_task
from elmo_tf.trainers.tasks.training import train_task
from task_files import SQUAD, SRL, config_of

DROPOUT = {"dropout": 0.3, "elmo_dropout": 0.3}
SETTINGS = {
    "squad": {"placement": "both", "optimizer": "adadelta", "ema": 0.9, **DROPOUT},
    "srl": {"model_options": ["num_layers=2", "predicate_dim=3"], "ema": 0.9, **DROPOUT},
    "coref": {"batch_size": 32, "model_options": ["mention_loss=1", "hidden_units=4"], **DROPOUT},
}


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory, eager_module):
    """The work directory and the record of each task, after one epoch."""
    folder = tmp_path_factory.mktemp("structured")
    return {
        task: (folder / task, run(task, folder / task, epochs=1, **settings))
        for task, settings in SETTINGS.items()
    }


@pytest.mark.parametrize(
    "task", ["srl", *(pytest.param(task, marks=pytest.mark.more) for task in ("squad", "coref"))]
)
def test_a_resumed_run_has_the_same_losses_and_scores_as_an_uninterrupted_run(
    trained, task, run, tmp_path
):
    settings = {**SETTINGS[task], "epochs": 2}
    begun = shutil.copytree(trained[task][0], tmp_path / "parts")

    whole = run(task, tmp_path / "whole", **settings)
    parts = run(task, begun, resume=True, **settings)

    for name in ("loss", "dev"):
        assert [each[name] for each in parts["epochs"]] == [each[name] for each in whole["epochs"]]
    assert parts["best"] == whole["best"]


@pytest.mark.parametrize("task", SETTINGS)
def test_scores_match_those_of_the_written_predictions(trained, task, files, tmp_path):
    workdir, record = trained[task]
    out = tmp_path / "predicted"

    scores = evaluate_task(workdir, [files[task]], out)

    assert scores == record["best"]["dev"]
    predict_task(workdir, files[task], tmp_path / "again")
    assert out.read_bytes() == (tmp_path / "again").read_bytes()
    specification = specification_of(task)
    examples = specification.read([str(files[task])], config_of(task))
    gold = [specification.gold(example) for example in examples]
    assert specification.scores(gold, specification.read_predictions(out, examples)) == scores
    with pytest.raises(FileExistsError, match="predicted"):
        evaluate_task(workdir, [files[task]], out)


@pytest.mark.parametrize("task", SETTINGS)
def test_files_with_other_columns_refuse_a_token_column(trained, task, files, tmp_path):
    with pytest.raises(ValueError, match=f"`token_column` is not for --task {task}"):
        predict_task(trained[task][0], files[task], tmp_path / "out", token_column=2)


def test_predicted_answers_are_substrings_of_the_passage(trained, tmp_path):
    questions = json.loads(json.dumps(SQUAD))
    for paragraph in questions["data"][0]["paragraphs"]:
        for question in paragraph["qas"]:
            del question["answers"]
    (tmp_path / "new.json").write_text(json.dumps(questions))

    assert predict_task(trained["squad"][0], tmp_path / "new.json", tmp_path / "out.json") == 3

    answers = json.loads((tmp_path / "out.json").read_text())
    passage = SQUAD["data"][0]["paragraphs"][0]["context"]
    assert answers.keys() == {"where", "who", "longer"}
    assert answers["where"] in passage
    assert answers["longer"] == "Bonn"
    with pytest.raises(ValueError, match=r"question 'where' has no answer"):
        evaluate_task(trained["squad"][0], [tmp_path / "new.json"])


def test_roles_are_predicted_for_lines_with_a_predicate_index(trained, tmp_path):
    (tmp_path / "in.txt").write_text("1 Cats love hats\n\n0 Sleep !\n")

    assert predict_task(trained["srl"][0], tmp_path / "in.txt", tmp_path / "out.props") == 2

    rows = [line.split("\t") for line in (tmp_path / "out.props").read_text().splitlines()]
    assert [len(row) for row in rows] == [2, 2, 2, 1, 2, 2, 1]
    assert [row[0] for row in rows] == ["-", "love", "-", "", "Sleep", "-", ""]
    assert (tmp_path / "out.props.words").read_text() == "Cats\nlove\nhats\n\nSleep\n!\n\n"


def test_sentences_without_a_predicate_are_kept_in_the_output_and_not_counted(trained, tmp_path):
    (tmp_path / "gold.props").write_text(SRL)

    scores = evaluate_task(trained["srl"][0], [tmp_path / "gold.props"], tmp_path / "out.props")
    number = predict_task(trained["srl"][0], tmp_path / "gold.props", tmp_path / "again.props")

    rows = [line.split()[:2] for line in SRL.strip().splitlines()]
    for name in ("out.props", "again.props"):
        columns = [
            (tmp_path / file).read_text().strip().splitlines() for file in (f"{name}.words", name)
        ]
        written = [[*words.split(), *row.split()[:1]] for words, row in zip(*columns, strict=True)]
        assert written == rows
    assert number == scores["propositions"] == 3


def test_the_file_of_words_is_not_overwritten_silently(trained, tmp_path):
    (tmp_path / "in.txt").write_text("1 Cats love hats\n")
    (tmp_path / "out.props.words").write_text("mine")
    paths = trained["srl"][0], tmp_path / "in.txt", tmp_path / "out.props"

    with pytest.raises(FileExistsError, match=r"out\.props\.words"):
        predict_task(*paths)
    assert not (tmp_path / "out.props").exists()
    assert (tmp_path / "out.props.words").read_text() == "mine"
    predict_task(*paths, overwrite=True)
    assert (tmp_path / "out.props.words").read_text() == "Cats\nlove\nhats\n\n"


# In the columns of PropBank: number, token, lemma, roleset and roles.
PROPBANK = """
0 My - - (ARG0* (ARG0*
1 cats - - *) *)
2 love love love.01 (V*) *
3 to - - (ARG1* *
4 wake wake wake_up.02 * (V*)
5 me - - * (ARG1*)
6 up - - *) (C-V*)

0 Yes - -

0 It - - (ARG1*)
1 was - - *
2 said say say.01 (V*)
3 that - - (C-ARG1*)
4 today - - (ARGM-TMP*)
"""


def read_props(text):
    """The propositions of each sentence: by position and verb, the phrases of each argument."""
    for sentence in text.strip("\n").split("\n\n"):
        verbs, *columns = zip(*(line.split() for line in sentence.splitlines()), strict=True)
        places = [(place, verb) for place, verb in enumerate(verbs) if verb != "-"]
        yield {place: phrases(fields) for place, fields in zip(places, columns, strict=True)}


def phrases(fields):
    """The arguments of a column of brackets: the role and the phrases of each."""
    found = []
    for position, field in enumerate(fields):
        if field.startswith("("):
            role, begin = field[1 : field.index("*")], position
        if field.endswith(")"):
            name = role.removeprefix("C-")
            heads = [one for one in found if one[0] == name]
            if role != name and heads:
                heads[-1][1].append((begin, position))
            else:
                found.append((name, [(begin, position)]))
    return found


def test_scores_equal_those_of_the_scorer_of_conll_2005_on_the_written_file(tmp_path):
    """The rules: equal role and phrases, by verb and position, without V."""
    columns = [line.split() for line in PROPBANK.strip().splitlines()]
    (tmp_path / "gold.conll").write_text(
        "\n".join(
            "\t".join(["a", "0", *row[:2], "NN", "*", *row[2:]]) if row else "" for row in columns
        )
    )
    gold = "\n".join(" ".join([row[2], *row[4:]]) if row else "" for row in columns)
    srl = specification_of("srl")
    examples = srl.read([str(tmp_path / "gold.conll")], config_of("srl"))
    predicted = [list(example.tags) for example in examples]
    predicted[0][:2] = ["B-ARG0", "O"]  # a wrong end
    predicted[1][5:] = ["O", "B-ARG1"]  # a wrong place, and no C-V
    predicted[3][3:] = ["B-C-ARG1", "I-C-ARG1"]  # a wrong end of a continuation

    written = "\n".join(srl.lines(examples, predicted))

    pairs = []
    for ours, theirs in zip(read_props(gold), read_props(written), strict=True):
        assert ours.keys() == theirs.keys()
        pairs += [(ours[place], theirs[place]) for place in ours]
    ours, theirs = (
        [[one for one in prop if one[0] != "V"] for prop in side]
        for side in zip(*pairs, strict=True)
    )
    correct = sum(one in prop for prop, others in zip(ours, theirs, strict=True) for one in others)
    scores = srl.scores([srl.gold(example) for example in examples], predicted)
    assert (correct, sum(map(len, theirs)), sum(map(len, ours))) == (2, 5, 6)
    assert scores["precision"] == correct / 5
    assert scores["recall"] == correct / 6


@pytest.mark.parametrize(
    ("sentence", "number"), [("1987 -", 3), ("2 - (A0*)\nsleep sleep (V*)", 4)]
)
def test_columns_whose_first_token_is_a_number_are_read_as_columns(
    trained, tmp_path, sentence, number
):
    (tmp_path / "new.props").write_text(f"{sentence}\n\n{SRL}")

    assert evaluate_task(trained["srl"][0], [tmp_path / "new.props"])["propositions"] == number


def test_a_hyphen_can_be_a_predicate(trained, tmp_path):
    (tmp_path / "in.txt").write_text("1 Cats - hats\n")

    predict_task(trained["srl"][0], tmp_path / "in.txt", tmp_path / "out.props")

    rows = [line.split("\t") for line in (tmp_path / "out.props").read_text().splitlines()]
    assert [row[0] for row in rows] == ["-", "[-]", "-", ""]


def test_unknown_roles_count_as_missed(trained, tmp_path):
    (tmp_path / "new.props").write_text("Cats - (NEW*)\nsleep sleep (V*)\n")

    scores = evaluate_task(trained["srl"][0], [tmp_path / "new.props"])

    assert (scores["recall"], scores["arguments"]) == (0, 1)


def test_documents_are_predicted_from_text(trained, tmp_path):
    (tmp_path / "in.txt").write_text("Anna saw Bonn .\nShe likes it .\n\nRain\n")

    assert predict_task(trained["coref"][0], tmp_path / "in.txt", tmp_path / "out.conll") == 2

    documents = read_documents(tmp_path / "out.conll")
    assert [document.sentences for document in documents] == [
        [["Anna", "saw", "Bonn", "."], ["She", "likes", "it", "."]],
        [["Rain"]],
    ]


def test_files_of_text_are_predicted_as_different_documents(trained, files, tmp_path):
    (tmp_path / "a.txt").write_text("Anna saw Bonn .\n\nRain\n")
    (tmp_path / "b.txt").write_text("She likes it .\n")
    inputs = [tmp_path / "a.txt", files["coref"], tmp_path / "b.txt"]

    number = predict_task(trained["coref"][0], inputs, tmp_path / "out.conll")

    documents = read_documents(tmp_path / "out.conll")
    gold = [document.name for document in read_documents(files["coref"])]
    names = [document.name for document in documents]
    assert names == ["document_0", "document_1", *gold, "document_2"]
    assert len(documents) == number
    with pytest.raises(ValueError, match=r"Document 'nw/cats', part '000', is in several files"):
        predict_task(trained["coref"][0], [files["coref"]] * 2, tmp_path / "new.conll")


def test_answers_of_several_files_are_one_json_object(trained, files, tmp_path):
    (tmp_path / "more.json").write_text(json.dumps(SQUAD).replace('"id": "', '"id": "more_'))
    inputs = [files["squad"], tmp_path / "more.json"]

    assert predict_task(trained["squad"][0], inputs, tmp_path / "out.json") == 6

    answers = json.loads((tmp_path / "out.json").read_text())
    names = ["where", "who", "longer"]
    assert list(answers) == [*names, *(f"more_{name}" for name in names)]
    with pytest.raises(ValueError, match=r"Question 'where' is in several files of "):
        predict_task(trained["squad"][0], inputs[:1] * 2, tmp_path / "new.json")


def test_roles_of_several_files_are_joined_with_their_words(trained, tmp_path):
    (tmp_path / "a.txt").write_text("1 Cats love hats\n")
    (tmp_path / "b.props").write_text(SRL)

    inputs = [tmp_path / "a.txt", tmp_path / "b.props"]
    assert predict_task(trained["srl"][0], inputs, tmp_path / "out.props") == 4

    words, props = (
        (tmp_path / name).read_text().split("\n\n") for name in ("out.props.words", "out.props")
    )
    assert words[0].split() == ["Cats", "love", "hats"]
    assert [len(part.splitlines()) for part in props] == [3, 4, 2, 2, 0]
    assert [len(part.splitlines()) for part in words] == [3, 4, 2, 2, 0]


def test_a_document_window_contains_only_mentions_inside_the_window(files):
    document = read_documents(files["coref"])[0]

    part = part_of_document(document, 1, 3)

    assert part.sentences == document.sentences[1:]
    assert part.speakers == document.speakers[1:]
    assert part.entities == [[(0, 0)], [(2, 3), (4, 4)]]


def test_document_windows_are_drawn_again_in_each_epoch(trained, files):
    class Names:
        texts, features, layers_name = CoreferenceModel.texts, {}, CoreferenceModel.layers_name

    documents = read_documents(files["coref"])
    batches = DocumentBatches(Names, documents, window=1)

    def first_tokens(epoch):
        return {
            batch.inputs["tokens"].numpy()[0, 0]
            for batch in batches.shuffled(0, epoch)
            if batch.indices == [0]
        }

    drawn = [first_tokens(epoch) for epoch in range(12)]
    assert set().union(*drawn) == {b"Anna", b"She", b"It"}
    assert drawn == [first_tokens(epoch) for epoch in range(12)]


def test_long_examples_are_left_out_of_training(files, caplog):
    caplog.set_level("INFO", logger="absl")
    for task in ("squad", "srl"):
        caplog.clear()
        specification, config = specification_of(task), config_of(task, max_tokens=3)
        examples = specification.read([str(files[task])], config)

        assert len(specification.for_training(examples, config)) == 1
        assert "2 of 3 examples are left out" in caplog.text


def test_files_with_the_same_question_are_refused(files):
    file = str(files["squad"])
    with pytest.raises(ValueError, match=r"Question .* is in several files of "):
        specification_of("squad").read([file, file], config_of("squad"))


def test_predictions_with_invalid_utf_8_are_read(files, tmp_path):
    squad = specification_of("squad")
    questions = squad.read([str(files["squad"])], config_of("squad"))
    answers = ["caf\udce9"] * len(questions)
    content = "\n".join(squad.lines(questions, answers))
    (tmp_path / "answers.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert squad.read_predictions(tmp_path / "answers.json", questions) == answers


def test_training_without_an_example_is_an_error(files, tmp_path):
    file = str(files["srl"])
    config = TaskConfig(
        task="srl", train=file, dev=file, workdir=str(tmp_path / "run"), max_tokens=1
    )
    with pytest.raises(ValueError, match="All 4 training examples have more than"):
        train_task(config)
    assert not (tmp_path / "run").exists()


def test_one_of_several_answers_is_drawn(files):
    class Names:
        texts, features = BiDAF.texts, {}

    squad = specification_of("squad")
    question = squad.read([str(files["squad"])], config_of("squad"))[0]
    batches = Batches(Names, [squad.texts(question)], [squad.target(None, question)], 1)

    drawn = {tuple(batch.targets[0]) for epoch in range(9) for batch in batches.shuffled(0, epoch)}

    assert drawn == set(question.answer_spans)
    assert len(drawn) == 2
