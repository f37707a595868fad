"""Books payments in JSON, whatever their producers wrote. It knows nothing of schemas or idempotency."""
import base64
import json
import os


def handler(event, context):
    for records in event["records"].values():
        for record in records:
            payment = json.loads(base64.b64decode(record["value"]))
            with open(os.environ["BOOKINGS"], "a") as bookings:
                bookings.write("%s %d %s\n" % (payment["paymentId"], int(payment["amount"]),
                                               record["valueSchemaMetadata"]["dataFormat"]))
