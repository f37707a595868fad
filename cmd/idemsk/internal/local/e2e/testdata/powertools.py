"""Appends each payment to a file, once by Powertools' idempotency utility. It knows nothing of the layer."""

import json
import os

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

config = IdempotencyConfig(event_key_jmespath="paymentId", expires_after_seconds=7 * 24 * 3600)
persistence = DynamoDBPersistenceLayer(table_name=os.environ["POWERTOOLS_TABLE"])
processor = BatchProcessor(event_type=EventType.Kafka)


@idempotent_function(data_keyword_argument="payment", config=config, persistence_store=persistence)
def book(payment):
    with open(os.environ["BOOKINGS"], "a") as bookings:
        bookings.write(json.dumps({"payment": payment["paymentId"]}) + "\n")
    return payment["paymentId"]


def handle(record):
    return book(payment=record.json_value)


def handler(event, context):
    config.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=handle, processor=processor, context=context)
