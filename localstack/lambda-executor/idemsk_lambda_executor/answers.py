"""What the caller of a function and the reader of its log are told, in the words AWS Lambda uses."""

import json
import signal
from dataclasses import dataclass

# AWS takes 6 MiB plus a little room for its own envelope.
MAX_RESPONSE_BYTES = 6_291_556


@dataclass(frozen=True)
class Outcome:
    """How one invocation ended.

    `lambda_error` is set when Lambda itself ended the invocation (the process died, ran out of time, answered with too
    much); an error that the function reported is an error without it.
    """

    body: bytes
    is_error: bool = False
    lambda_error: str | None = None

    @property
    def status(self) -> str | None:
        """The Status of the REPORT line; AWS prints none for a success."""
        if self.lambda_error == "Sandbox.Timedout":
            return "timeout"
        return "error" if self.is_error else None


def _failed(request_id: str, kind: str, message: str) -> Outcome:
    document = {"errorType": kind, "errorMessage": f"RequestId: {request_id} Error: {message}"}
    return Outcome(json.dumps(document).encode(), is_error=True, lambda_error=kind)


def exited(request_id: str, returncode: int) -> Outcome:
    """The process ended without an answer. A negative code is a signal, as subprocess has it."""
    if returncode == 0:
        return _failed(request_id, "Runtime.ExitError", "Runtime exited without providing a reason")
    if returncode > 0:
        return _failed(request_id, "Runtime.ExitError", f"Runtime exited with error: exit status {returncode}")
    name = (signal.strsignal(-returncode) or f"signal {-returncode}").lower()
    return _failed(request_id, "Runtime.ExitError", f"Runtime exited with error: signal: {name}")


def timed_out(request_id: str, seconds: float) -> Outcome:
    return _failed(request_id, "Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")


def not_executable(request_id: str, error: OSError) -> Outcome:
    reason = (error.strerror or str(error)).lower()
    return _failed(request_id, "Runtime.InvalidEntrypoint", f"fork/exec {error.filename}: {reason}")


def too_large() -> Outcome:
    kind = "Function.ResponseSizeTooLarge"
    message = f"Response payload size exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
    return Outcome(json.dumps({"errorType": kind, "errorMessage": message}).encode(), is_error=True, lambda_error=kind)


@dataclass(frozen=True)
class LogReport:
    """The figures and output of one invocation, from which its part of the log stream is made."""

    request_id: str
    version: str
    memory_mb: str
    outcome: Outcome
    milliseconds: float = 0.0
    output: str = ""
    init_output: str = ""
    init_milliseconds: float | None = None
    peak_memory_mb: int | None = None

    def text(self) -> str:
        return (
            _ended(self.init_output)
            + f"START RequestId: {self.request_id} Version: {self.version}\n"
            + _ended(self.output)
            + self._lambda_error()
            + f"END RequestId: {self.request_id}\n"
            + "\t".join(self._report_fields())
            + "\t\n"
        )

    def _lambda_error(self) -> str:
        if self.outcome.lambda_error is None:
            return ""
        message = json.loads(self.outcome.body)["errorMessage"]
        return f"{message}\n{self.outcome.lambda_error}\n"

    def _report_fields(self) -> list[str]:
        fields = [
            f"REPORT RequestId: {self.request_id}",
            f"Duration: {self.milliseconds:.2f} ms",
            f"Billed Duration: {int(self.milliseconds) + 1} ms",
            f"Memory Size: {self.memory_mb} MB",
        ]
        if self.peak_memory_mb is not None:
            fields.append(f"Max Memory Used: {self.peak_memory_mb} MB")
        if self.init_milliseconds is not None:
            fields.append(f"Init Duration: {self.init_milliseconds:.2f} ms")
        if self.outcome.status:
            fields.append(f"Status: {self.outcome.status}")
        if self.outcome.lambda_error:
            fields.append(f"Error Type: {self.outcome.lambda_error}")
        return fields


def _ended(output: str) -> str:
    """The output with its last line ended, so that Lambda's own lines begin at the margin."""
    return output if not output or output.endswith("\n") else output + "\n"
