"""The AWS Lambda Runtime API (2018-06-01) for one function process, on a free port of the loopback address."""

import json
import queue
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import answers

HOST = "127.0.0.1"
API_VERSION = "2018-06-01"
# How long `close` may take: the caller of a function that died waits for it.
CLOSE_SECONDS = 0.02


@dataclass(frozen=True)
class Invocation:
    """One piece of work for the function. `deadline_ms` is in epoch milliseconds, the unit of the API."""

    request_id: str
    payload: bytes
    function_arn: str
    trace_id: str
    deadline_ms: int


@dataclass(frozen=True)
class AskedForWork:
    """The process called /invocation/next: it is initialised and idle."""


@dataclass(frozen=True)
class Answered:
    """The process answered an invocation, with a result or with an error of its own."""

    request_id: str
    outcome: answers.Outcome


@dataclass(frozen=True)
class InitFailed:
    """The process reported that its initialisation failed; `body` is its error document."""

    body: bytes


class RuntimeApi:
    """Serves one process. What the process does arrives, in its order, in `events`; `hand_out` gives it work."""

    def __init__(self, events: queue.Queue):
        self._events = events
        self._work: queue.Queue[Invocation | None] = queue.Queue()
        self._outstanding: str | None = None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((HOST, 0), _Handler)
        self._server.daemon_threads = True  # a process that is killed may leave a connection half read
        self._server.runtime_api = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_SECONDS,), name="lambda-runtime-api", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{HOST}:{self._server.server_port}"

    def hand_out(self, invocation: Invocation) -> None:
        with self._lock:
            self._outstanding = invocation.request_id
        self._work.put(invocation)

    def close(self) -> None:
        self._work.put(None)  # lets go of requests for work that are held open
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- called by the HTTP handler's threads ---

    def wait_for_work(self) -> Invocation | None:
        """Blocks until there is work; None when the API is being closed."""
        self._events.put(AskedForWork())
        invocation = self._work.get()
        if invocation is None:
            self._work.put(None)  # for other waiting threads
        return invocation

    def settle(self, request_id: str, outcome: answers.Outcome) -> bool:
        """Takes the answer to the outstanding invocation. False: that invocation is unknown or has been answered."""
        with self._lock:
            if request_id != self._outstanding:
                return False
            self._outstanding = None
        self._events.put(Answered(request_id, outcome))
        return True

    def init_failed(self, body: bytes) -> None:
        self._events.put(InitFailed(body))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two writes; without this each invocation waits 40 ms for an ACK

    def do_GET(self):
        if self.path != f"/{API_VERSION}/runtime/invocation/next":
            return self._refuse(HTTPStatus.NOT_FOUND, "NotFound", f"no such path: {self.path}")
        invocation = self.server.runtime_api.wait_for_work()
        if invocation is None:
            self.close_connection = True
            return None
        try:
            self._send(
                HTTPStatus.OK,
                invocation.payload,
                {
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                    "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                    "Lambda-Runtime-Trace-Id": invocation.trace_id,
                },
            )
        except ConnectionError:
            self.close_connection = True  # the process has died; its exit is what settles the invocation

    def do_POST(self):
        body = self._read_body()
        match self.path.strip("/").split("/"):
            case [version, "runtime", "init", "error"] if version == API_VERSION:
                self.server.runtime_api.init_failed(body)
                self._accept()
            case [version, "runtime", "invocation", request_id, "response"] if version == API_VERSION:
                self._settle_response(request_id, body)
            case [version, "runtime", "invocation", request_id, "error"] if version == API_VERSION:
                self._settle(request_id, answers.Outcome(body, is_error=True))
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, "NotFound", f"no such path: {self.path}")

    def _settle_response(self, request_id: str, body: bytes) -> None:
        if len(body) <= answers.MAX_RESPONSE_BYTES:
            self._settle(request_id, answers.Outcome(body))
        else:
            self.server.runtime_api.settle(request_id, answers.too_large())
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", f"response of {len(body)} bytes")

    def _settle(self, request_id: str, outcome: answers.Outcome) -> None:
        if self.server.runtime_api.settle(request_id, outcome):
            self._accept()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "InvalidRequestID", f"{request_id} is not being processed")

    def _accept(self) -> None:
        # 202 and nothing else: aws-lambda-go takes any other status as fatal.
        self._send(HTTPStatus.ACCEPTED, b'{"status":"OK"}\n')

    def _refuse(self, status: HTTPStatus, kind: str, message: str) -> None:
        self._send(status, json.dumps({"errorType": kind, "errorMessage": message}).encode())

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def log_message(self, *args):
        pass  # one line a request on LocalStack's standard error would drown its log
