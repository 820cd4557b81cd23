"""Sense-annotated texts and inventories for the tests."""

from xml.sax.saxutils import escape

TAGS = {"noun": "NOUN", "verb": "VERB", "adj": "ADJ", "adv": "ADV"}


def word(words, lemma, *senses, pos="noun"):
    """Words of a sentence that are one instance with senses."""
    return words, lemma, pos, senses


def write_corpus(path, sentences):
    """Writes sentences: lists of plain words and of results of `word`.

    Instances are named by sentence and position, `s1.w0`; an instance without senses gets no gold
    keys.
    """
    elements, keys = [], []
    for number, sentence in enumerate(sentences):
        lines = []
        for place, one in enumerate(sentence):
            if isinstance(one, str):
                lines.append(f'<wf lemma="{escape(one)}" pos="X">{escape(one)}</wf>')
                continue
            words, lemma, pos, senses = one
            name = f"s{number}.w{place}"
            lines.append(
                f'<instance id="{name}" lemma="{escape(lemma)}" pos="{TAGS[pos]}">{escape(words)}'
                "</instance>"
            )
            if senses:
                keys.append(" ".join([name, *senses]))
        elements.append("\n".join(["<sentence>", *lines, "</sentence>"]))
    lines = ["<corpus>", "<text>", *elements, "</text>", "</corpus>", ""]
    path.write_text("\n".join(lines), "utf-8")
    gold = path.with_name(path.name.replace(".data.xml", ".gold.key.txt"))
    gold.write_text("".join(f"{line}\n" for line in keys), "utf-8")
    return path


def write_inventory(path, *lines):
    """Writes lines of lemma, part of speech and sense, given with spaces between them."""
    path.write_text("".join("\t".join(line.split()) + "\n" for line in lines), "utf-8")
    return path
