"""The Hugging Face Hub: names `hf://owner/name`, and the card of a checkpoint."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elmo_tf.config import BiLMConfig
from elmo_tf.extras import require_extra

CARD_FILE = "README.md"

_PREFIX = "hf://"


def is_hub_name(path: Any) -> bool:
    """Whether this is a name such as `hf://owner/name`."""
    return isinstance(path, str) and path.startswith(_PREFIX)


def hub_folder(name: str, patterns: Iterable[str]) -> Path:
    """Downloads a checkpoint from the Hugging Face Hub into its cache, and returns the directory.

    The library's settings apply, such as `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN`. Only files
    that match the patterns are downloaded.

    Raises:
        FileNotFoundError: the repository or the revision does not exist or is private, or it is
            not in the cache and the Hub cannot be reached.
        ValueError: the name is not valid.
        MissingExtraError: the package huggingface_hub is not installed.
    """
    hub = require_extra("huggingface_hub", "huggingface", f"The checkpoint {name}")
    errors = require_extra("huggingface_hub.errors", "huggingface", f"The checkpoint {name}")
    repository, _, revision = name.removeprefix(_PREFIX).partition("@")
    if repository.count("/") != 1:
        raise ValueError(f"A name on the Hugging Face Hub is hf://owner/name. Received: {name!r}")
    try:
        folder = hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=sorted(patterns)
        )
    except errors.HFValidationError as error:
        raise ValueError(f"{name!r} is not a name on the Hugging Face Hub: {error}") from None
    except errors.RevisionNotFoundError:
        raise FileNotFoundError(
            f"{_PREFIX}{repository} has no revision {revision!r} on the Hugging Face Hub."
        ) from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"{name} does not exist on the Hugging Face Hub, or is private. For a private "
            "repository, set HF_TOKEN."
        ) from None
    except Exception as error:  # of the Hub, its HTTP library or the file system
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FileNotFoundError(
            f"{name} is not in the cache of the Hugging Face Hub, and cannot be downloaded: "
            f"{reason} Download its files elsewhere, and pass their directory."
        ) from error
    return Path(folder)


def write_card(config: BiLMConfig, directory: str | os.PathLike) -> None:
    """Writes `README.md` with the metadata that the Hub reads; an existing one is kept."""
    path = Path(directory) / CARD_FILE
    if path.exists():
        return
    lstm, cnn = config.lstm, config.char_cnn
    lstms = (
        f"{' and '.join(config.directions)}, {lstm.num_layers} layers of {lstm.dim:,} units, "
        f"projected to {lstm.projection_dim}"
    )
    if cnn is None:
        tokens = f"a table of {config.num_tokens:,} tokens"
    else:
        tokens = (
            f"a character CNN with {cnn.num_filters:,} filters, {cnn.num_highway} highway layers"
        )
        if cnn.lexicon is not None:
            sizes = cnn.lexicon
            tokens += f", {sizes.num_characters:,} known characters, {sizes.num_words:,} words"
    card = f"""---
library_name: elmo_tf
pipeline_tag: feature-extraction
tags:
- elmo
- word-embeddings
# Add what applies to your model:
# license: apache-2.0
# language: en
---

# ELMo

A biLM after Peters et al. 2018,
[Deep contextualized word representations](https://aclanthology.org/N18-1202/):

| part | shape |
| --- | --- |
| tokens | {tokens} |
| LSTMs | {lstms} |
| vector of a token, per layer | {config.output_dim} |

```python
from elmo_tf import Embedder

vectors = Embedder("hf://OWNER/NAME").encode(["The cat sat ."])
```
"""
    path.write_text(card, encoding="utf-8")
