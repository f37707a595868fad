"""What LocalStack calls: one executor is one Lambda execution environment, with at most one process at a time."""

import os
import threading
import time

from localstack import config
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import LambdaRuntimeException, RuntimeExecutor

from . import answers
from .runtime_api import HOST, Invocation
from .sandbox import Sandbox

# Set by localstack.sh in LocalStack's own environment. It is passed on so that the script can find each process that
# belongs to the instance, even if LocalStack was killed and could not end it.
INSTANCE_MARK = "LOCALSTACK_HARNESS"


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    name = "process"

    def load(self, *args, **kwargs):
        return ProcessExecutor


class ProcessExecutor(RuntimeExecutor):
    """Runs a function's bootstrap as a process of this host.

    The process is started by the first invocation and not by `start`: a failed start is then the outcome of an
    invocation, with the output that explains it in the log. From `start` LocalStack would keep the error and drop the
    output. A process that has died or was killed for its time-out is replaced at the next invocation.
    """

    def __init__(self, id: str, function_version: FunctionVersion):
        super().__init__(id, function_version)
        self._env: dict[str, str] = {}
        self._sandbox: Sandbox | None = None
        self._stopped = False
        self._lock = threading.Lock()

    # --- where things are, as LocalStack asks before `start` ---

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        # LocalStack makes the function's AWS_ENDPOINT_URL of it.
        return HOST

    def get_runtime_endpoint(self) -> str:
        return f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    # --- life of the environment ---

    def start(self, env_vars: dict[str, str]) -> None:
        self._env = self._process_environment(env_vars)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
        self._discard_sandbox()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Processes one invocation. LocalStack calls this for one invocation at a time."""
        request_id = payload["invoke-id"]
        sandbox = self._sandbox
        fresh = sandbox is None or not sandbox.awaits_work()
        if fresh:
            self._discard_sandbox()
            try:
                sandbox = self._new_sandbox()
            except OSError as error:
                return self._result(answers.not_executable(request_id, error), request_id)
        failure = sandbox.initialise(request_id) if fresh else None
        init_output = sandbox.new_output() if fresh else ""
        began = time.monotonic()
        outcome = failure or sandbox.run(self._invocation(payload), self._timeout())
        result = self._result(
            outcome,
            request_id,
            milliseconds=(time.monotonic() - began) * 1000,
            init_output=init_output,
            init_milliseconds=sandbox.init_milliseconds if fresh else None,
            output=sandbox.new_output(),
            peak_memory_mb=sandbox.peak_memory_mb(),
        )
        if failure or outcome.lambda_error:
            self._discard_sandbox()
        return result

    def get_logs(self) -> str:
        sandbox = self._sandbox
        return sandbox.all_output() if sandbox else ""

    def _new_sandbox(self) -> Sandbox:
        with self._lock:  # so that `stop` either finds the new process or prevents it
            if self._stopped:
                raise LambdaRuntimeException(f"the environment {self.id} has been stopped")
            self._sandbox = Sandbox(self._code_dir(self.function_version), self._env)
            return self._sandbox

    def _discard_sandbox(self) -> None:
        with self._lock:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox:
            sandbox.kill()

    def _timeout(self) -> int:
        return self.function_version.config.timeout

    def _invocation(self, payload: dict[str, str]) -> Invocation:
        return Invocation(
            request_id=payload["invoke-id"],
            payload=payload["payload"].encode(),
            function_arn=payload["invoked-function-arn"],
            trace_id=payload["trace-id"],
            deadline_ms=int((time.time() + self._timeout()) * 1000),
        )

    def _result(self, outcome: answers.Outcome, request_id: str, **figures) -> InvocationResult:
        report = answers.LogReport(
            request_id=request_id,
            version=self._env["AWS_LAMBDA_FUNCTION_VERSION"],
            memory_mb=self._env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
            outcome=outcome,
            **figures,
        )
        return InvocationResult(request_id, outcome.body, is_error=outcome.is_error, logs=report.text())

    def _process_environment(self, env_vars: dict[str, str]) -> dict[str, str]:
        """The environment of the process: what Lambda defines and nothing of LocalStack's own."""
        code_dir = self._code_dir(self.function_version)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "en_US.UTF-8"}
        env |= {name: str(value) for name, value in env_vars.items() if value is not None}
        env |= {"LAMBDA_TASK_ROOT": code_dir, "LAMBDA_RUNTIME_DIR": code_dir}
        if mark := os.environ.get(INSTANCE_MARK):
            env[INSTANCE_MARK] = mark
        return env

    # --- life of a function version ---

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unpacks the code. What is raised here becomes the reason of the function's state Failed."""
        settings = function_version.config
        if not settings.code or not (settings.runtime or "").startswith("provided."):
            raise NotImplementedError(
                "this LocalStack runs functions as processes, not in containers: only zip packages with a runtime of "
                f"provided.al2 or provided.al2023, not {settings.runtime or 'images'}"
            )
        settings.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        pass  # LocalStack deletes the unpacked code with the version

    @classmethod
    def validate_environment(cls) -> bool:
        return True

    @staticmethod
    def _code_dir(function_version: FunctionVersion) -> str:
        return str(function_version.config.code.get_unzipped_code_location())
