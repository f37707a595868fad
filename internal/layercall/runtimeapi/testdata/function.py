import os


def handler(event, context):
    if event["do"] == "raise":
        raise ValueError(event["text"])
    if event["do"] == "die":
        os._exit(3)
    return {"text": event["text"]}
