"""A function for MSK: it counts the payments, and reports the first record that it ever sees as failed, once."""

import base64
import json
import time

seen = False

# Each invocation takes at least this time, so that a process is killed in the middle of one.
DURATION = 0.02


def handler(event, context):
    global seen
    time.sleep(DURATION)
    failures, counted = [], 0
    for records in event["records"].values():
        for record in records:
            if not seen:
                seen = True
                partition = f"{record['topic']}-{record['partition']}"
                failures.append({"itemIdentifier": {"partition": partition, "offset": record["offset"]}})
                continue
            payment = json.loads(base64.b64decode(record["value"]))
            key = bytes(b & 0xFF for h in record["headers"] for b in h.get("idempotency-key", []))
            assert payment["paymentId"] == key.decode(), payment
            counted += 1
    print(json.dumps({"_aws": {}, "Executed": counted, "BatchSize": counted + len(failures)}), flush=True)
    return {"batchItemFailures": failures}
