"""Strange JSON, and strange HTTP around it. A status of `None` is a connection that is closed."""

import json
from urllib.parse import quote

from strange_requests import Kinds, mutated

PREDICT = "/v1/models/elmo:predict"
TOKENS = {"tokens": [["a", "bb"], ["c", ""]], "sequence_len": [2, 1]}

_VALUES = (
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 2**63, 10**300, "", "a", "\0"),
    *([], [[]], {}, {"b64": "YQ=="}, {"b64": "?"}, {"b64": None}, {"b64": "YQ==", "x": 1}),
)
_NAMES = ("", "tokens ", "\ud800", "\0", "a" * 3000, "strings", "elmo")

KINDS = Kinds(lambda document: posted(json.dumps(document).encode()))


def posted(body, path=PREDICT, **headers):
    return sent("POST", path, body, **{"Content-Length": len(body), **headers})


def sent(method, path, body=b"", version="HTTP/1.1", **headers):
    lines = [f"{method} {path} {version}", "Host: x", *map(": ".join, _texts(headers)), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _texts(headers):
    return ((name, str(value)) for name, value in headers.items())


def nested(depth, kind):
    """JSON that is so deep."""
    if kind == "lists":
        return b"[" * depth + b"]" * depth
    return b'{"a":' * depth + b"1" + b"}" * depth


@KINDS.add(400, 505, None)
def random_bytes(rng, size):
    return rng.randbytes(rng.randrange(300)) + b"\r\n\r\n"


@KINDS.add(400)
def random_bodies(rng, size):
    return posted(rng.randbytes(rng.randrange(300)))


@KINDS.add(200, 400)
def mutated_bodies(rng, size):
    body = {"signature_name": "tokens", "inputs": TOKENS}
    return posted(mutated(json.dumps(body).encode(), rng))


@KINDS.add(400)
def other_documents(rng, size):
    return rng.choice([*_VALUES, [1], {"inputs": ["a"], "instances": ["a"]}])


@KINDS.add(400)
def deep_documents(rng, size):
    depth = rng.choice([rng.randrange(1, 1100), 10**5])
    inner = nested(depth, rng.choice(["lists", "objects"]))
    key = rng.choice([b"inputs", b"instances", b"signature_name"])
    start, end = rng.choice([(b"", b""), (b'{"%s":' % key, b"}"), (b'{"inputs":["a",', b"]}")])
    return posted(start + inner + end)


@KINDS.add(200, 400)
def other_values(rng, size):
    value = rng.choice(_VALUES)
    return {rng.choice(["inputs", "instances"]): rng.choice([value, [value], {"strings": value}])}


@KINDS.add(200, 400)
def other_tokens(rng, size):
    value = rng.choice([*_VALUES, [list(_VALUES)], [[1], [2]]])
    inputs = {**TOKENS, rng.choice(list(TOKENS)): value}
    return {"signature_name": "tokens", "inputs": inputs}


@KINDS.add(400)
def ragged_lists(rng, size):
    rows = [["a"] * rng.randrange(1, 4) for _ in range(5)] + [["a"] * 5]
    return {"signature_name": "tokens", "inputs": {**TOKENS, "tokens": rows}}


@KINDS.add(400)
def numbers_of_many_digits(rng, size):
    digits = b"9" * rng.choice([20, 400, 4000, 10**5])
    return posted(b'{"signature_name":"char_ids","inputs":[[[%s]]]}' % digits)


@KINDS.add(400)
def lengths_that_cannot_be(rng, size):
    lengths = rng.choice([[3, 1], [-1, 0], [1], [2**31 - 1, 0], [2, 1, 0], []])
    return {"signature_name": "tokens", "inputs": {**TOKENS, "sequence_len": lengths}}


@KINDS.add(200, 400)
def other_keys(rng, size):
    return {"inputs": ["a"], rng.choice(_NAMES): 1, "signature_name": rng.choice(_NAMES)}


@KINDS.add(400)
def other_names_of_inputs(rng, size):
    return {"inputs": {rng.choice(_NAMES[:-2]): ["a"]}}


@KINDS.add(500)  # INTERNAL, which TF Serving says too
def the_signature_that_only_initializes(rng, size):
    return {"signature_name": "__saved_model_init_op", "inputs": {}}


@KINDS.add(400, 404)
def other_paths(rng, size):
    paths = ["*", "//x", "http://[", "/v1/models/\xff:predict", "/v1/models/%00:predict", "/\0"]
    paths += ["/v1/models/elmo/labels/x:predict", "/v1/models/elmo/versions/9:predict", "/:?#"]
    path = rng.choice([*paths, "/v1/models/" + quote(rng.randbytes(9)) + ":predict"])
    return posted(b'{"inputs":["a"]}', path) if rng.random() < 0.5 else sent("GET", path)


@KINDS.add(400, 414, None)  # What it does not read may cut off what it says.
def long_paths(rng, size):
    return sent("GET", "/" + "n" * rng.choice([5000, 60_000, 100_000]))


@KINDS.add(501)
def other_methods(rng, size):
    return sent(rng.choice(["PUT", "HEAD", "DELETE", "CONNECT", "get", "__init__", "X" * 999]), "/")


@KINDS.add(400, 505)
def other_versions(rng, size):
    versions = ["HTTP/2.0", "HTTP/9.9", "HTTP/1", "HTTP/1.1.1", "HTTP/-1.1", "HTTP/1.1 x", "GOPHER"]
    return sent("GET", "/", version=rng.choice(versions))


@KINDS.add(200, 431, None)
def many_or_long_headers(rng, size):
    if rng.random() < 0.5:
        return sent("GET", "/v1/models/elmo", X="n" * rng.choice([9000, 100_000]))
    count = rng.choice([50, 150, 3000])
    return sent("GET", "/v1/models/elmo", **{f"X{number}": "" for number in range(count)})


@KINDS.add(400)
def wrong_lengths(rng, size):
    lengths = ["-1", "+5", "1e3", "0x10", "", "\xb2", "9" * 18, "9" * 5000, "many", "5, 5"]
    return posted(b'{"inputs":["a"]}', **{"Content-Length": rng.choice(lengths)})


@KINDS.add(400)
def lengths_that_are_too_small(rng, size):
    return posted(b'{"inputs":["a"]}', **{"Content-Length": rng.randrange(16)})


@KINDS.add(None)
def unfinished_bodies(rng, size):
    body = b'{"inputs":["a"]}' * rng.randrange(100)
    return posted(body, **{"Content-Length": len(body) + rng.choice([1, 1000, 60_000_000])})


@KINDS.add(200, 400, None)
def unfinished_heads(rng, size):
    head = posted(b"")
    return head[: rng.randrange(len(head))]


@KINDS.add(400)
def chunks(rng, size):
    return sent("POST", PREDICT, b"5\r\nhello\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"})


@KINDS.add(200, is_large=True)
def one_long_token(rng, size):
    return {"inputs": [rng.choice(["a", "é", "\0"]) * (size // 6)]}


@KINDS.add(200, is_large=True)
def white_space_around(rng, size):
    return posted(b" " * (size // 2) + b'{"inputs":["a"]}' + b"\n" * (size // 2))


@KINDS.add(400, is_large=True)
def many_short_tokens(rng, size):
    return {"instances": ["a " * (size // 2)]}


@KINDS.add(400, is_large=True)
def many_sentences(rng, size):
    return posted(b'{"instances":[' + b'"",' * (size // 3) + b'""]}')


@KINDS.add(400, is_large=True)
def many_numbers(rng, size):
    return posted(b'{"inputs":[' + b"1," * (size // 2) + b"1]}")


@KINDS.add(400, is_large=True)
def a_long_signature_name(rng, size):
    return {"inputs": ["a"], "signature_name": "n" * size}


@KINDS.add(400, is_large=True)
def a_long_model_name(rng, size):
    return {"inputs": {"n" * size: 1}}
