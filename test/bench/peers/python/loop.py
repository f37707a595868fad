"""A consumer process as a team writes it first: kafka-python, and two requests of boto3 for each record, one after another. The
offsets are committed after each poll. Prints "handled 1" for each record that was handled.
"""

import json
import os
import time

import boto3
from kafka import KafkaConsumer

RETENTION_SECONDS = 7 * 24 * 3600

db = boto3.client("dynamodb")
table = os.environ["BENCH_TABLE"]


def expiration():
    return {"N": str(int(time.time()) + RETENTION_SECONDS)}


def claim(key):
    """Reports whether the key is fresh, and marks it as started. A key that was started and not completed is an error."""
    try:
        db.put_item(
            TableName=table,
            Item={"id": {"S": key}, "status": {"S": "STARTED"}, "expiration": expiration()},
            ConditionExpression="attribute_not_exists(#id) OR #expiration < :now",
            ExpressionAttributeNames={"#id": "id", "#expiration": "expiration"},
            ExpressionAttributeValues={":now": {"N": str(int(time.time()))}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        return True
    except db.exceptions.ConditionalCheckFailedException as error:
        if error.response.get("Item", {}).get("status") == {"S": "COMPLETED"}:
            return False
        raise


def complete(key, result):
    db.update_item(
        TableName=table,
        Key={"id": {"S": key}},
        UpdateExpression="SET #status = :status, #data = :data, #expiration = :expiration",
        ExpressionAttributeNames={"#status": "status", "#data": "data", "#expiration": "expiration"},
        ExpressionAttributeValues={
            ":status": {"S": "COMPLETED"},
            ":data": {"S": result},
            ":expiration": expiration(),
        },
    )


def handle(payment):
    return payment["paymentId"]


def process(record):
    key = dict(record.headers)["idempotency-key"].decode()
    if claim(key):
        result = handle(json.loads(record.value))
        print("handled 1", flush=True)
        complete(key, result)


def main():
    consumer = KafkaConsumer(
        os.environ["BENCH_TOPIC"],
        bootstrap_servers=os.environ["BENCH_BROKERS"].split(","),
        group_id=os.environ["BENCH_GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    while True:
        for records in consumer.poll(timeout_ms=1000).values():
            for record in records:
                process(record)
        consumer.commit()


main()
