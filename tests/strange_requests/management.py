"""Strange requests that are for no prediction, as protos."""

from grpc import StatusCode
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from strange_requests import Kinds
from strange_requests.predictions import NAMES, NUMBERS

METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
INVALID = StatusCode.INVALID_ARGUMENT
NOT_FOUND = StatusCode.NOT_FOUND
_PATHS = ("", "/no/such/folder", "/no/" + "n" * 300, "\0/no", "/no\n", "no" * 5000)

KINDS = Kinds(lambda request: request.SerializeToString())


@KINDS.add(INVALID, method=METADATA)
def metadata_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@KINDS.add(INVALID, method=METADATA)
def metadata_of_other_fields(rng, size):
    fields = rng.choices(NAMES, k=rng.randrange(4))
    return get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "elmo"}, metadata_field=fields
    )


@KINDS.add(INVALID, method=METADATA, is_large=True)
def metadata_of_a_long_field(rng, size):
    return get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "elmo"}, metadata_field=["n" * size]
    )


@KINDS.add(INVALID, method=STATUS)
def status_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@KINDS.add(NOT_FOUND, method=STATUS)
def status_of_what_is_not_there(rng, size):
    spec = {"name": "elmo", "version": {"value": rng.choice(NUMBERS)}}
    return get_model_status_pb2.GetModelStatusRequest(
        model_spec=rng.choice([spec, {"name": rng.choice(NAMES)}, {"name": ""}])
    )


@KINDS.add(NOT_FOUND, method=STATUS, is_large=True)
def status_of_a_long_name(rng, size):
    return get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "n" * size})


@KINDS.add(INVALID, method=RELOAD)
def reload_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@KINDS.add(INVALID, method=RELOAD)
def reload_of_nothing(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    if rng.random() < 0.5:
        request.config.custom_model_config.type_url = rng.choice(NAMES)
    return request


@KINDS.add(INVALID, method=RELOAD)
def reload_of_what_is_not_there(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    for _ in range(rng.randrange(1, 4)):
        name, path = rng.choice(["", "elmo", *NAMES]), rng.choice(_PATHS)
        request.config.model_config_list.config.add(name=name, base_path=path)
    return request


@KINDS.add(INVALID, method=RELOAD, is_large=True)
def reload_of_a_long_path(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(name="elmo", base_path="/no/" + "n" * size)
    return request


@KINDS.add(StatusCode.UNIMPLEMENTED, method="/tensorflow.serving.PredictionService/Classify")
def another_method(rng, size):
    return rng.randbytes(rng.randrange(100))


@KINDS.add(StatusCode.UNIMPLEMENTED, method="/" + "n" * 4000)
def another_service(rng, size):
    return rng.randbytes(rng.randrange(100))
