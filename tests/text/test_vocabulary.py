import copy
import gzip
import pickle
from pathlib import Path

import pytest
import tensorflow as tf

from elmo_tf.text.characters import string_tensor
from elmo_tf.text.reading import encode
from elmo_tf.text.vocabulary import Vocabulary, read_vocabulary

SPECIAL = ["<S>", "</S>", "<UNK>"]


@pytest.mark.parametrize(
    ("lines", "limits", "tokens"),
    [
        (["b a c b", "😀 ß a b Z"], {}, ["b", "a", "Z", "c", "ß", "😀"]),
        (["a a a b b c"], {"min_count": 2}, ["a", "b"]),
        (["a a a b b c"], {"max_size": 5}, ["a", "b"]),
        (["a"], {"max_size": 3}, []),
        (["<S> a </S> <UNK> <UNK>"], {}, ["a"]),
        (["é \udcc3\udca9 b"], {}, ["é", "b"]),  # the same bytes are one token
    ],
)
def test_tokens_are_sorted_by_descending_count_then_by_code_point(lines, limits, tokens):
    assert list(Vocabulary.build(lines, **limits).tokens) == [*SPECIAL, *tokens]


def test_lines_and_files_may_be_mixed(tmp_path):
    (tmp_path / "plain.txt").write_text("a b\nb c\n", encoding="utf-8")
    with gzip.open(tmp_path / "packed.txt.GZ", "wt", encoding="utf-8") as file:
        file.write("c c\nd\n")

    mixed = Vocabulary.build([tmp_path / "plain.txt", "c a", tmp_path / "packed.txt.GZ"])

    assert mixed == Vocabulary.build(["a b b c", "c a", "c c d"])


def test_a_saved_vocabulary_loads_unchanged(tmp_path):
    odd = "\udcff\ud83d"  # an invalid byte and a lone surrogate
    vocabulary = Vocabulary.build([f"한국어 caf\udce9 a\u200bb <s> ß ß {odd}"])
    path = tmp_path / "new" / "vocab.txt"

    vocabulary.save(path)

    assert Vocabulary.load(path) == vocabulary
    assert hash(Vocabulary.load(path)) == hash(vocabulary)
    assert path.read_bytes().startswith(b"<S>\n</S>\n<UNK>\n\xc3\x9f\n")
    assert {b"caf\xe9", encode(odd)} <= {*path.read_bytes().splitlines()}
    assert encode(vocabulary.tokens[vocabulary.ids([odd])[0]]) == encode(odd)
    assert vocabulary.lookup(string_tensor([odd])).numpy().tolist() == vocabulary.ids([odd])


def test_lookup_in_a_graph_gives_the_same_ids_in_the_same_shape():
    vocabulary = Vocabulary.build(["a a b caf\udce9"])
    tokens = [["b", "a", b"zzz"], ["<S>", "</S>", b"caf\xe9"]]
    in_graph = tf.function(vocabulary.lookup)
    dataset = tf.data.Dataset.from_tensors(tf.constant(tokens)).map(vocabulary.lookup)

    expected = [[4, 3, 2], [0, 1, 5]]
    assert [vocabulary.ids(["b", "a", "zzz"]), "a" in vocabulary] == [expected[0], True]
    assert ("zzz" in vocabulary, repr(vocabulary)) == (False, "Vocabulary(6 tokens)")
    assert vocabulary.lookup(tf.constant(tokens)).numpy().tolist() == expected
    assert in_graph(tf.constant(tokens)).numpy().tolist() == expected
    assert next(iter(dataset)).numpy().tolist() == expected


def test_a_vocabulary_can_be_copied_after_a_lookup():
    vocabulary = Vocabulary.build(["a a b"])
    vocabulary.lookup(tf.constant(["a"]))

    for other in (copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))):
        assert other == vocabulary
        assert other.ids(["b"]) == other.lookup(tf.constant(["b"])).numpy().tolist() == [4]


@pytest.mark.parametrize("item", [["a", "b"], ("a",), b"a b", 7])
def test_items_that_are_neither_lines_nor_files_are_refused(item):
    with pytest.raises(TypeError, match=r"must be a line \(str\) or a file .* Item 1 is "):
        Vocabulary.build(["a line", item])
    for alone in ("one line", Path("file.txt")):
        with pytest.raises(TypeError, match="must be a list of lines or paths, not a single one"):
            Vocabulary.build(alone)


def test_empty_text_and_invalid_limits_are_refused():
    with pytest.raises(ValueError, match="text contains no tokens"):
        Vocabulary.build([])
    with pytest.raises(ValueError, match=r"`max_size` must be at least 3. Received: 2"):
        Vocabulary.build(["a"], max_size=2)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "The first tokens .* must be <S>, </S>, <UNK>. Received: "),
        ([*SPECIAL, "é", "\udcc3\udca9"], "Token 4 .* is empty or repeated: 'é'"),
        ([*SPECIAL, " "], "Token 3 .* is empty"),
    ],
)
def test_the_error_describes_invalid_tokens(tokens, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(tokens)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<UNK> <S> a", "has no line </S>, which a language"),
        ("<S> </S> <UNK> a b a", r".* not one token, or repeats one: 'a \(row 4, unused\)'"),
        ("<S> </S> <UNK>  b", r".* not one token, .*: '\(row 4, unused\)'"),
        ("<S> </S> <UNK> a\t7", r".* not one token, .*: 'a\\t7'"),
    ],
)
def test_the_error_describes_a_file_that_is_no_list_of_tokens(tmp_path, text, message):
    (tmp_path / "vocab.txt").write_text(text.replace(" ", "\n"))

    with pytest.raises(ValueError, match=rf"vocab\.txt:? {message}"):
        Vocabulary.load(tmp_path / "vocab.txt")


def test_a_vocabulary_file_is_read_as_the_original_reads_it(tmp_path):
    path = tmp_path / "vocab.txt"
    text = "the\n</S> \n<S>\n!!!MAXTERMID\na\n\n\u00a0the\n10\u00a0000\n<UNK>\n<S>\n\n\n"
    path.write_text(text, "utf-8")

    vocabulary, rows = read_vocabulary(path)

    assert rows == [8, 1, 7, 0, 2, 3, 4, 5, 6]
    unused = ["the (row 1, unused)", "<S> (row 3, unused)"]
    others = ["a", "(row 5, unused)", "the", "10\u00a0000"]
    assert list(vocabulary.tokens) == [*SPECIAL, *unused, *others]
    # Empty lines at the end count if the tables have rows for them.
    assert read_vocabulary(path, 10)[1][-1] == 9
    vocabulary.save(path)
    assert read_vocabulary(path) == (vocabulary, [*range(9)])
    path.write_bytes(b"\xef\xbb\xbf<UNK>\r\n</S>\r\n<S>\r\nthe\r\n\r\n")
    assert list(Vocabulary.load(path).tokens) == [*SPECIAL, "the"]
