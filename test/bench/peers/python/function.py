"""A function that knows nothing of idempotency: what peer.py does with a record, without Powertools. It runs behind the layer."""

import base64
import json
import sys


def handle(payment):
    return payment["paymentId"]


def lambda_handler(event, context):
    handled = 0
    for records in event["records"].values():
        for record in records:
            handle(json.loads(base64.b64decode(record["value"])))
            handled += 1
    sys.stdout.write(f"handled {handled}\n")  # in one write: a service has threads
