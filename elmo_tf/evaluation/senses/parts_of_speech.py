"""Lemmas and parts of speech, as sense-tagged text and inventories of senses write them."""

# As in the text ─► as in an inventory and in results.
POS_OF_TAG = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
PARTS_OF_SPEECH = tuple(POS_OF_TAG.values())


def joined(lemma: str) -> str:
    """A lemma of several words is written with spaces or underscores; here with underscores."""
    return "_".join(lemma.replace("_", " ").split())
