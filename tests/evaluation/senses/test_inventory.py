import gzip

import pytest

from elmo_tf.evaluation import SenseInventory


def test_senses_are_in_the_order_of_the_file(inventory):
    senses = inventory("bank n bank%1:17:01::", "bank v bank%2:38:00::", "bank n bank%1:14:00::")

    assert senses.senses("bank", "noun") == ["bank%1:17:01::", "bank%1:14:00::"]
    assert senses.first_sense("bank", "noun") == "bank%1:17:01::"
    assert senses.first_sense("bank", "verb") == "bank%2:38:00::"
    assert senses.first_sense("bank", "adv") is None
    assert senses.senses("river", "noun") == []


def test_senses_of_the_exact_spelling_come_first(inventory):
    senses = inventory("March n march%1:28:00::", "march n march%1:04:00::", "May n may%1:28:00::")

    assert senses.senses("march", "noun") == ["march%1:04:00::", "march%1:28:00::"]
    assert senses.first_sense("March", "noun") == "march%1:28:00::"
    assert senses.first_sense("may", "noun") == "may%1:28:00::"


def test_words_of_a_lemma_may_be_joined_by_spaces_or_underscores(tmp_path):
    path = tmp_path / "senses.tsv"
    path.write_text("primary election\tn\tprimary_election%1:04:00::\t00183505-n\n", "utf-8")

    senses = SenseInventory(path)

    assert senses.first_sense("primary_election", "noun") == "primary_election%1:04:00::"
    assert senses.first_sense("primary election", "noun") == "primary_election%1:04:00::"


def test_empty_lines_are_skipped_and_gz_files_are_decompressed(tmp_path):
    path = tmp_path / "senses.tsv.gz"
    path.write_bytes(gzip.compress(b"\nsat\tv\tsit%2:35:00::\r\n\n"))

    assert SenseInventory(path).senses("sat", "verb") == ["sit%2:35:00::"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat\tn\tcat%1\ndog\tn\n", r"line 2: expected a lemma, a part of"),
        ("cat n cat%1:05:00::\n", r"senses\.tsv, line 1: expected a lemma, a part of"),
        ("cat\t\tcat%1:05:00::\n", r"line 1: expected a lemma, a part of"),
        ("cat\tx\tcat%1\n", r"part of speech must be one of n, v, a, r\. Received: 'x'"),
        ("\n", r"senses\.tsv has no sense\."),
    ],
)
def test_an_invalid_file_is_reported_with_the_line(tmp_path, text, message):
    (tmp_path / "senses.tsv").write_text(text, "utf-8")

    with pytest.raises(ValueError, match=message):
        SenseInventory(tmp_path / "senses.tsv")
