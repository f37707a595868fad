"""Prints which process listens on a port, and nothing if none does. Run by localstack.sh in LocalStack's venv."""

import sys

import psutil


def holder(port: int) -> str:
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            return describe(connection.pid)
    return ""


def describe(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        command = "command unknown"
    return f"process {pid} ({command[:200]})"


if __name__ == "__main__":
    print(holder(int(sys.argv[1])))
