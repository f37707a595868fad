"""Books each payment in a file, with the process that did it. It knows nothing of idempotency.

As a Lambda function its handler is payments.handler. python payments.py PORT runs the same code as a web service.
"""

import base64
import http.server
import json
import os
import sys
import time

DURATION = 0.001  # of a booking, so that a process is killed in the middle of a call


def text(record, name):
    return bytes(b & 0xFF for h in record["headers"] for b in h.get(name, [])).decode()


def handler(event, context):
    began = time.time()
    with open(os.environ["BOOKINGS"], "a") as bookings:
        for records in event["records"].values():
            for record in records:
                time.sleep(DURATION)
                booking = {
                    "payment": base64.b64decode(record["key"]).decode(),
                    "process": os.getpid(),
                    "parent": os.getppid(),
                    "began": began,
                    "attempt": int(text(record, "idemsk-attempt")),
                }
                bookings.write(json.dumps(booking) + "\n")
                bookings.flush()
    return {"batchItemFailures": []}


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(handler(event, None)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
