"""The subcommands `export`, `serve` and `query`: checkpoint ─► server ─► vectors."""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.commands.options import (
    add_checkpoint,
    add_overwrite,
    add_precision,
    natural,
    positive_float,
    print_json,
)


def add_export(add: Callable) -> None:
    """`elmo-tf export`."""
    parser = add(
        "export",
        _export,
        "write a checked SavedModel for TF Serving",
        "elmo-tf export run exported",
    )
    add_checkpoint(parser)
    parser.add_argument("directory", metavar="DIR", help="gets a folder named by the version")
    parser.add_argument("--version", type=natural, default=1, metavar="N", help="(1)")
    add_precision(parser)
    parser.add_argument(
        "--free-characters",
        action="store_true",
        help="let the signature char_ids take fewer ids a token than the model keeps",
    )
    parser.add_argument(
        "--raw-text",
        action="store_true",
        help="add the signature text, which splits off punctuation; servers need tensorflow-text",
    )
    parser.add_argument(
        "--warmup",
        metavar="TEXT",
        help="a file whose first sentences TF Serving embeds when it loads the model, so that the "
        "first users need not wait",
    )
    add_overwrite(parser)


def _export(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import VOCABULARY_FILE, load_bilm
    from elmo_tf.files import refuse_existing
    from elmo_tf.saved_models.exporting import export
    from elmo_tf.saved_models.tokenizers import PunctuationSplitter
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_existing(os.path.join(arguments.directory, str(arguments.version)), arguments.overwrite)
    vocabulary = Path(arguments.checkpoint, VOCABULARY_FILE)
    path = export(
        load_bilm(arguments.checkpoint),
        arguments.directory,
        arguments.version,
        arguments.overwrite,
        arguments.precision,
        arguments.free_characters,
        PunctuationSplitter() if arguments.raw_text else None,
        Vocabulary.load(vocabulary) if vocabulary.is_file() else None,
        _sentences(arguments.warmup) if arguments.warmup else (),
    )
    print(path)


def _sentences(path: str) -> list[str]:
    from elmo_tf.saved_models.warmup import MOST_SENTENCES
    from elmo_tf.text.vocabulary import read_lines

    lines = (line.strip() for line in read_lines(path))
    sentences = list(itertools.islice(filter(None, lines), MOST_SENTENCES))
    if not sentences:
        raise ValueError(f"{path} holds no sentence to warm up with.")
    return sentences


def add_serve(add: Callable) -> None:
    """`elmo-tf serve`."""
    parser = add(
        "serve",
        _serve,
        "serve an exported model over gRPC and REST, until interrupted",
        "elmo-tf serve exported",
    )
    parser.add_argument("directory", metavar="DIR", help="what elmo-tf export wrote")
    parser.add_argument("--name", default="elmo", help="what requests call the model (elmo)")
    parser.add_argument("--port", type=natural, default=8500, help="of gRPC; 0: any (8500)")
    parser.add_argument("--rest-port", type=natural, default=8501, help="of REST; 0: any (8501)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (127.0.0.1)"
    )


def _serve(arguments: Any) -> None:
    from elmo_tf.saved_models.serving.server import serve

    # TERM ends the server as Ctrl-C does: requests that are running are answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with serve(
        arguments.directory,
        arguments.name,
        arguments.port,
        arguments.rest_port,
        arguments.host,
    ) as server:
        print_json({"port": server.port, "rest_port": server.rest_port})
        sys.stdout.flush()
        try:
            server.wait()
        except KeyboardInterrupt:
            logging.info("Stopping.")


def add_query(add: Callable) -> None:
    """`elmo-tf query`."""
    parser = add(
        "query",
        _query,
        "ask a model server for the vectors of sentences",
        "elmo-tf query localhost:8500 'The bank of the river' --output default",
    )
    parser.add_argument("address", metavar="ADDRESS", help="host:port of the server's gRPC")
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE", help="split at white space")
    parser.add_argument("--model", default="elmo", help="what the server calls it (elmo)")
    parser.add_argument(
        "--output",
        action="append",
        metavar="NAME",
        help="elmo, default, word_emb, lstm_outputs1, …; may be repeated (elmo)",
    )
    parser.add_argument(
        "--timeout", type=positive_float, default=60.0, metavar="SECONDS", help="(60)"
    )


def _query(arguments: Any) -> None:
    from elmo_tf.saved_models.client import Client

    with Client(arguments.address, arguments.model, timeout=arguments.timeout) as client:
        answer = client.predict(arguments.sentences, arguments.output or ("elmo",))
    print_json({name: array.tolist() for name, array in answer.items()})
