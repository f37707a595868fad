# shellcheck shell=bash
# ports.sh: to be sourced.

# free_ports N prints N distinct free ports of 127.0.0.1, below those that the kernel gives to outgoing connections, which could take
# one before a server listens.
free_ports() {
  python3 - "$1" <<'PY'
import random, socket, sys
wanted, held = int(sys.argv[1]), []
for port in random.sample(range(20_000, 32_000), 100):
    try:
        held.append(socket.create_server(("127.0.0.1", port)))
    except OSError as e:
        refused = e
    if len(held) == wanted:
        break
else:
    sys.exit(f"no free port: {refused}")
ports = [s.getsockname()[1] for s in held]
for s in held:
    s.close()  # before the reader of the next line tries a port
print(*ports)
PY
}
