"""Sends each payment of a FIFO queue to a ledger, with Powertools' processor for such queues. It knows nothing of the
layer."""

import os

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from ledger import book

processor = SqsFifoPartialProcessor(skip_group_on_error=os.environ["SKIP_GROUP"] == "true")


def handle(record):
    book(record.json_body)


def handler(event, context):
    return process_partial_response(event=event, record_handler=handle, processor=processor, context=context)
