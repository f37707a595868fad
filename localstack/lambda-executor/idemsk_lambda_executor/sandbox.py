"""One function process from its start to its death, with the Runtime API that it talks to."""

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from . import answers
from .runtime_api import Answered, AskedForWork, InitFailed, Invocation, RuntimeApi

# AWS's limit for the time between the start of the process and its first request for work.
INIT_SECONDS = 10.0
# SIGKILL needs no consent; more than this means that the kernel cannot end the process (a dead disk, a debugger).
DEATH_SECONDS = 5.0


@dataclass(frozen=True)
class _Exited:
    returncode: int


class Sandbox:
    """A running `bootstrap`. Used by one invocation at a time; `kill` may come from another thread at any moment.

    All that happens to the process arrives in one queue in the order in which it happened: an answer that is followed
    by the process's end is an answer, never an exit.
    """

    def __init__(self, code_dir: str, env: dict[str, str]):
        """Starts the process. Raises OSError if it cannot be executed."""
        self._events: queue.Queue = queue.Queue()
        self._idle = False
        self._deadline = 0.0
        # A file, not a pipe: what the process printed before it answered is complete once it has answered. It is closed
        # with the last reference to the sandbox, for a reader may come after the kill.
        self._output = tempfile.TemporaryFile("a+b", prefix="lambda-output-")
        self._output_read = 0
        self._gone = False
        self._lock = threading.Lock()
        self._api = RuntimeApi(self._events)
        self._started = time.monotonic()
        self.init_milliseconds: float | None = None
        try:
            self._process = subprocess.Popen(
                [os.path.join(code_dir, "bootstrap")],
                cwd=code_dir,
                env={**env, "AWS_LAMBDA_RUNTIME_API": self._api.address},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, so that what it starts can be ended with it
            )
        except OSError:
            self._api.close()
            raise
        self._watcher = threading.Thread(target=self._watch, name="lambda-process-watcher", daemon=True)
        self._watcher.start()

    def initialise(self, request_id: str) -> answers.Outcome | None:
        """Waits for the first request for work. An outcome: initialisation failed, and the sandbox is of no use.

        AWS would try once more within the invocation's own time limit; here the first failure is the answer.
        """
        self._deadline = self._started + INIT_SECONDS
        while True:
            match self._next_event():
                case AskedForWork():
                    self._idle = True
                    self.init_milliseconds = (time.monotonic() - self._started) * 1000
                    return None
                case InitFailed(body):
                    return answers.Outcome(body, is_error=True)
                case _Exited(returncode):
                    return answers.exited(request_id, returncode)
                case None:
                    return answers.timed_out(request_id, INIT_SECONDS)

    def awaits_work(self) -> bool:
        """Whether the process can take an invocation. After an answer it may still be working, or dying: until it has
        asked for more work it is given the rest of the time of the invocation before."""
        while not self._idle:
            match self._next_event():
                case AskedForWork():
                    self._idle = True
                case _Exited() | None:
                    return False
        return not self._gone

    def run(self, invocation: Invocation, seconds: float) -> answers.Outcome:
        """Has one invocation processed, in at most `seconds`. After an outcome with `lambda_error` kill the sandbox."""
        self._idle = False
        self._deadline = time.monotonic() + seconds
        self._api.hand_out(invocation)
        while True:
            match self._next_event():
                case Answered(request_id, outcome) if request_id == invocation.request_id:
                    return outcome
                case _Exited(returncode):
                    return answers.exited(invocation.request_id, returncode)
                case None:
                    return answers.timed_out(invocation.request_id, seconds)

    def kill(self) -> None:
        """Ends the process and all it has started, at once, as AWS does. May be called more than once."""
        with self._lock:
            if not self._gone:
                self._kill_group()
        self._watcher.join(DEATH_SECONDS)
        self._api.close()

    def new_output(self) -> str:
        """What was printed since the last call."""
        output = self._output_from(self._output_read)
        self._output_read += len(output)
        return output.decode(errors="replace")

    def all_output(self) -> str:
        return self._output_from(0).decode(errors="replace")

    def peak_memory_mb(self) -> int | None:
        """The process's largest resident size so far; None when it has gone."""
        try:
            with open(f"/proc/{self._process.pid}/status") as status:
                kib = next((line.split()[1] for line in status if line.startswith("VmHWM:")), None)
        except OSError:
            return None
        return None if kib is None else int(kib) // 1024 + 1

    def _output_from(self, offset: int) -> bytes:
        # pread: the process writes through the same open file, so its position is not ours to move
        descriptor = self._output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size - offset, offset)

    def _next_event(self):
        """The next thing that happens; None when the deadline has passed."""
        try:
            return self._events.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except queue.Empty:
            return None

    def _watch(self) -> None:
        # Waits without reaping: as long as the dead process is there its number cannot be given to another, so the
        # group that is killed is its own.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._kill_group()
            returncode = self._process.wait()
            self._gone = True
        self._events.put(_Exited(returncode))

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
