"""Appends each payment of a queue to a file, as bookings.py does. It knows nothing of idempotency."""

import json
import os


def number(message, name):
    return int(message["messageAttributes"].get(name, {}).get("stringValue", 0))


def handler(event, context):
    with open(os.environ["BOOKINGS"], "a") as bookings:
        for message in event["Records"]:
            booking = {
                "payment": json.loads(message["body"])["paymentId"],
                "request": context.aws_request_id,
                "token": number(message, "idemsk-token"),
                "attempt": number(message, "idemsk-attempt"),
            }
            bookings.write(json.dumps(booking) + "\n")
            bookings.flush()
