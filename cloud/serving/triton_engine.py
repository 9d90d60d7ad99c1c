"""A Triton Inference Server as an engine: this process asks, Triton runs and batches.

Anything that speaks the Open Inference Protocol v2 with binary tensor data over HTTP will do. The
bundle stays the authority: the server's metadata must fit it, and its golden samples are run on the
server before a request is. `tritonclient.http` rests on gevent, whose sockets belong to a thread:
each thread has its own client.
"""

import importlib
import ssl
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloud.serving.settings import TritonSettings
from shared.engines.batches import BatchCheck, sole_input
from shared.engines.engine import Absent, Available, OpenOptions, TensorInfo
from shared.errors import (
    Disconnected,
    HybridgeError,
    Malformed,
    Overloaded,
    Unavailable,
)
from shared.oip.datatypes import datatype, datatype_of, numpy_dtype

T = TypeVar("T")

_MESSAGE_MAX = 300
_CONNECT_S_MAX = 2.0  # Triton stands in the same room, or there is no point in it


def load_tritonclient() -> ModuleType:
    """Import its HTTP half. Raises `ImportError`."""
    return importlib.import_module("tritonclient.http")


class TritonEngine:
    """One model on one server; `outputs` are the names wanted, the first of them is the answer."""

    name = "triton"

    def __init__(self, settings: TritonSettings, model: str, outputs: tuple[str, ...]) -> None:
        """`model` is its name where `settings` has none."""
        self._settings, self._outputs = settings, outputs
        self._model = settings.model or model

    def probe(self) -> Available | Absent:
        try:
            said = _Clients(self._settings).call(lambda client: client.get_server_metadata())
        except HybridgeError as error:
            return Absent(str(error))
        return Available(str(said.get("version", "unknown")), ("server",))

    def open(self, artifact: bytes, options: OpenOptions) -> "TritonSession":
        """The server has its own artifact, so `artifact` may be empty.

        Raises `Malformed` when the server's model has no such outputs, `Disconnected` when it
        cannot be reached, and `Unavailable` when it says that it cannot.
        """
        del artifact
        clients = _Clients(self._settings)
        version = self._settings.version or ""
        stated = clients.call(lambda client: client.get_model_metadata(self._model, version))
        where = f"{options.where} on {self._settings.url}"
        return TritonSession(
            clients, self._model, version, where,
            inputs=tuple(_info(tensor, where) for tensor in _listed(stated, "inputs", where)),
            outputs=_named(_listed(stated, "outputs", where), self._outputs, where),
            batch_max=min(options.batch_max, _batch_max(clients, self._model, version)),
            timeout_s=self._settings.timeout_s,
        )  # fmt: skip


class TritonSession:
    """May be run by many threads at once."""

    def __init__(
        self,
        clients: "_Clients",
        model: str,
        version: str,
        where: str,
        *,
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        batch_max: int,
        timeout_s: float,
    ) -> None:
        """`batch_max`: rows of one request, by the server's own configuration."""
        self._clients, self._model, self._version, self._where = clients, model, version, where
        self.inputs, self.outputs, self.batch_max = inputs, outputs, batch_max
        self._timeout_us = int(timeout_s * 1e6)
        tensor = sole_input(inputs, where)
        self._check = BatchCheck(tensor, where).check
        self._input, self._datatype = tensor.name, datatype_of(np.dtype(tensor.dtype))
        self._output = outputs[0]

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        """See `Session.run`.

        Raises `Disconnected` when the server is away or silent, `Overloaded` when its queue is
        full, `Malformed` when it refuses the batch, `Unavailable` for the rest.
        """
        self._check(batch)
        return self._clients.call(lambda client: self._ask(client, batch))

    def close(self) -> None:
        self._clients.close()

    def _ask(self, client: Any, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        module = self._clients.module
        tensor = module.InferInput(self._input, list(batch.shape), self._datatype)
        tensor.set_data_from_numpy(batch, binary_data=True)
        wanted = module.InferRequestedOutput(self._output.name, binary_data=True)
        result = client.infer(
            self._model, [tensor], model_version=self._version, outputs=[wanted],
            timeout=self._timeout_us,
        )  # fmt: skip
        answer = result.as_numpy(self._output.name)
        expected = (len(batch), *self._output.shape[1:])
        if answer is None or answer.shape != expected or answer.dtype.kind != "f":
            said = "nothing" if answer is None else f"{answer.dtype}{list(answer.shape)}"
            raise Unavailable(
                f"{self._where}: '{self._output.name}' came as {said}, not as float32"
                f"{list(expected)}; has another model been loaded there? Load this one again"
            )
        return np.asarray(answer, np.float32)


class _Clients:
    """A client for each thread, with the server's and the network's errors in our own words."""

    def __init__(self, settings: TritonSettings) -> None:
        """Raises `Unavailable` when the client library is not installed."""
        try:
            self.module = load_tritonclient()
            self._utils = importlib.import_module("tritonclient.utils")
            self._hung_up = importlib.import_module(
                "geventhttpclient.response"
            ).HTTPConnectionClosed
        except ImportError as error:
            raise Unavailable(
                "tritonclient is not installed; pip install hybridge[triton]"
            ) from error
        self._settings = settings
        self._own = threading.local()

    def call(self, ask: Callable[[Any], T]) -> T:
        """`ask(client)`. The client closes a connection that failed, and opens another one."""
        url = self._settings.url
        try:
            return ask(self._client())
        except self._utils.InferenceServerException as error:
            raise _said(error, url) from error
        except TimeoutError as error:  # an OSError, too
            limit_s = self._settings.timeout_s
            raise Disconnected(
                f"{url} did not answer within {limit_s:g} s; is it stuck?"
            ) from error
        except (OSError, self._hung_up) as error:
            raise Disconnected(f"{url}: {error or type(error).__name__}; is Triton up?") from error
        except HybridgeError:
            raise
        except Exception as error:  # gevent's and the parsers' own kinds
            kind = type(error).__name__
            raise Unavailable(f"{url} answered strangely: {kind}: {_short(error)}") from error

    def close(self) -> None:
        self._own = threading.local()  # each client goes with its thread's last reference

    def _client(self) -> Any:
        client = getattr(self._own, "client", None)
        if client is None:
            scheme, _, address = self._settings.url.partition("://")
            encrypted = scheme == "https"
            client = self._own.client = self.module.InferenceServerClient(
                address,
                connection_timeout=min(_CONNECT_S_MAX, self._settings.timeout_s),
                network_timeout=self._settings.timeout_s,
                ssl=encrypted,
                ssl_context_factory=ssl.create_default_context if encrypted else None,
            )
        return client


def _said(error: Any, url: str) -> HybridgeError:
    """An HTTP error of the server as one of ours. We are its caller: 404 is no fault of our caller.

    503 is Triton's word for a full queue as well as for a model that is not there.
    """
    status = str(error.status() or "")
    words = f"{url} said {status or 'no status'}: {_short(error.message() or '')}"
    full = status == "429" or (status == "503" and "queue" in words.lower())
    if full:
        return Overloaded(words)
    return Malformed(words) if status in ("400", "413", "422") else Unavailable(words)


def _batch_max(clients: _Clients, model: str, version: str) -> int:
    """By Triton's model configuration; without one, or without batching in it, there is no limit."""
    try:
        config = clients.call(lambda client: client.get_model_config(model, version))
    except (Malformed, Unavailable) as error:
        if isinstance(error, Disconnected):
            raise
        return 2**31  # other servers of the protocol have no configuration to show
    stated = config.get("max_batch_size", 0) if isinstance(config, dict) else 0
    return stated if isinstance(stated, int) and stated > 0 else 2**31


def _listed(stated: Any, kind: str, where: str) -> list[dict[str, Any]]:
    tensors = stated.get(kind) if isinstance(stated, dict) else None
    if not isinstance(tensors, list) or not all(isinstance(each, dict) for each in tensors):
        raise Malformed(f"{where}: its metadata has no list of {kind}")
    return tensors


def _named(
    tensors: list[dict[str, Any]], names: tuple[str, ...], where: str
) -> tuple[TensorInfo, ...]:
    by_name = {tensor.get("name"): tensor for tensor in tensors}
    for name in names:
        if name not in by_name:
            raise Malformed(
                f"{where}: has no output {name!r}; it has {', '.join(map(str, by_name))[:200]}"
            )
    return tuple(_info(by_name[name], where) for name in names)


def _info(tensor: dict[str, Any], where: str) -> TensorInfo:
    name, sizes = tensor.get("name"), tensor.get("shape")
    if not isinstance(name, str) or not isinstance(sizes, list):
        raise Malformed(f"{where}: its metadata has a tensor without a name or a shape")
    dtype = numpy_dtype(datatype(tensor.get("datatype"), f"{where}: {name[:60]!r}"))
    shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in sizes)
    return TensorInfo(name, dtype.name, shape)


def _short(error: object) -> str:
    return " ".join(str(error).split())[:_MESSAGE_MAX]
