"""A function for MSK behind the layer. It has no code of idemsk, and handles each payment once."""

import base64
import json


def handler(event, context):
    failures = []
    for records in event["records"].values():
        for record in records:
            try:
                print("booked", json.loads(base64.b64decode(record["value"]))["paymentId"])
            except (ValueError, KeyError) as error:
                place = {"partition": f"{record['topic']}-{record['partition']}", "offset": record["offset"]}
                failures.append({"itemIdentifier": place, "permanent": True, "error": repr(error)})
    return {"batchItemFailures": failures}
