"""Appends each payment to a file. It knows nothing of idempotency."""
import base64
import os


class PermanentError(Exception):
    pass


class UnavailableError(Exception):
    pass


def handler(event, context):
    for records in event["records"].values():
        for record in records:
            payment = base64.b64decode(record["key"]).decode()
            with open(os.environ["BOOKINGS"], "a") as bookings:
                bookings.write(payment + "\n")
            if base64.b64decode(record["value"]) == b"die":
                os._exit(9)
            if base64.b64decode(record["value"]) == b"raise":
                raise ValueError("no such account")
            if base64.b64decode(record["value"]) == b"closed":
                raise PermanentError("the account is closed")
            if base64.b64decode(record["value"]) == b"down":
                raise UnavailableError("the bank is down: retry after 1h")
