import numpy as np
import pytest

from elmo_tf.evaluation.occurrence_index.corpus_store import StoredCorpus, write_corpus
from elmo_tf.text import corpus


@pytest.fixture
def stored(tmp_path):
    """Stores texts; each text is a file of lines."""

    def store(*texts, max_tokens=None):
        files = []
        for number, lines in enumerate(texts):
            files.append(tmp_path / f"{number}.txt")
            files[-1].write_text("\n".join(lines), "utf-8", "surrogateescape")
        folder = tmp_path / "stored"
        folder.mkdir()
        write_corpus(files, folder, max_tokens)
        return StoredCorpus(folder, [file.name for file in files])

    return store


def test_sentences_have_the_file_and_line_of_their_first_occurrence(stored):
    text = stored(["a  b a", "", "größe caf\udce9\u200bx"], ["a b a", "c\tb"])

    sentences = [text.tokens(number) for number in range(text.num_sentences)]

    assert sentences == [["a", "b", "a"], ["größe", "caf\udce9\u200bx"], ["c", "b"]]
    assert [text.source(number) for number in range(3)] == [
        ("0.txt", 1),
        ("0.txt", 3),
        ("1.txt", 2),
    ]
    assert text.types == ("a", "b", "größe", "caf\udce9\u200bx", "c")
    assert text.num_tokens == 7


def test_all_positions_of_a_token_are_found(stored):
    text = stored(["a b a", "c", "b a"])

    assert text.occurrences("a").tolist() == [0, 2, 5]
    assert text.places(text.occurrences("a")) == [(0, 0), (0, 2), (2, 1)]
    assert text.places(np.arange(6)) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    assert text.occurrences("d").tolist() == []


def test_storing_stops_after_the_sentence_that_reaches_max_tokens(stored):
    text = stored(["a b", "a b", "c d e", "f"], ["g"], max_tokens=3)

    assert [text.tokens(number) for number in range(text.num_sentences)] == [["a", "b"], [*"cde"]]


def test_overlong_lines_are_split_into_sentences(stored, monkeypatch, caplog):
    monkeypatch.setattr("elmo_tf.evaluation.occurrence_index.corpus_store.MAX_SENTENCE_TOKENS", 3)
    assert corpus.MAX_SENTENCE_TOKENS > 3

    text = stored(["a b c d", "e \udcff"])

    assert [text.source(number).line for number in range(3)] == [1, 1, 2]
    assert text.tokens(1) == ["d"]
    assert "1 with invalid UTF-8 (read byte for byte; another encoding?), 1 of more" in caplog.text


def test_text_without_a_token_is_an_error(stored):
    with pytest.raises(ValueError, match=r"There is no token in .*0\.txt, .*1\.txt"):
        stored(["", " "], [""])
