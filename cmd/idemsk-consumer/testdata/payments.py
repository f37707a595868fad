"""Books each payment in a file, with the process that did it. It knows nothing of idempotency."""

import base64
import json
import os
import time

DURATION = 0.001  # of a booking, so that a process is killed in the middle of a call


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
                }
                bookings.write(json.dumps(booking) + "\n")
                bookings.flush()
    return {"batchItemFailures": []}
