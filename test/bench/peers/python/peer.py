"""Powertools for AWS Lambda (Python): its batch utility with its idempotency utility on the records.

Speaks the benchmark's protocol (test/bench/internal/peer). BENCH_MODE is batch (one record after another), or async (its
AsyncBatchProcessor over BENCH_CONCURRENCY threads, since its idempotency utility calls DynamoDB synchronously).
"""

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from botocore.config import Config

THREADS = int(os.environ.get("BENCH_CONCURRENCY", "1"))
RETENTION_SECONDS = 7 * 24 * 3600

persistence = DynamoDBPersistenceLayer(
    table_name=os.environ["BENCH_TABLE"], boto_config=Config(max_pool_connections=max(10, THREADS))
)
config = IdempotencyConfig(event_key_jmespath="key", expires_after_seconds=RETENTION_SECONDS)
handled = count()  # its next() is atomic


class Context:
    """What the utilities read of a Lambda context."""

    function_name = "bench"

    @staticmethod
    def get_remaining_time_in_millis():
        return 900_000


@idempotent_function(data_keyword_argument="data", config=config, persistence_store=persistence)
def handle(data, payment):
    next(handled)
    return payment["paymentId"]


def process(record):
    data = {"key": record.decoded_headers["idempotency-key"].decode()}
    return handle(data=data, payment=record.json_value)


pool = ThreadPoolExecutor(THREADS)


async def process_async(record):
    return await asyncio.get_running_loop().run_in_executor(pool, process, record)


batch_processor = BatchProcessor(event_type=EventType.Kafka)
async_processor = AsyncBatchProcessor(event_type=EventType.Kafka)


def lambda_handler(event, context):
    config.register_lambda_context(context)
    if os.environ["BENCH_MODE"] == "async":
        return async_process_partial_response(
            event=event, record_handler=process_async, processor=async_processor, context=context
        )
    return process_partial_response(event=event, record_handler=process, processor=batch_processor, context=context)


def main():
    payload, before = "", 0
    for line in sys.stdin:
        command, _, path = line.strip().partition(" ")
        answer = {}
        if command == "load":
            with open(path, encoding="utf-8") as file:
                payload = file.read()
        else:
            response = lambda_handler(json.loads(payload), Context())
            if response["batchItemFailures"]:
                sys.exit(f"bench: records failed: {response}")
            now = next(handled)
            answer = {"handled": now - before}
            before = now + 1
        print(json.dumps(answer), flush=True)


main()
