// Powertools for AWS Lambda (TypeScript): its batch processor, which takes all records at once (Promise.all), with its
// idempotency utility on the records. Its batch utility knows no Kafka events, so each record gets the messageId by which its
// processor for SQS reports failures.
//
// Speaks the benchmark's protocol (test/bench/internal/peer).

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

const KEY_HEADER = 'idempotency-key';
const RETENTION_SECONDS = 7 * 24 * 3600;

let handled = 0;
const config = new IdempotencyConfig({ eventKeyJmesPath: 'key', expiresAfterSeconds: RETENTION_SECONDS });
const handle = makeIdempotent(
  async (_data, payment) => {
    handled++;
    return payment.paymentId;
  },
  { persistenceStore: new DynamoDBPersistenceLayer({ tableName: process.env.BENCH_TABLE }), config, dataIndexArgument: 0 },
);

// What the utilities read of a Lambda context.
const context = { functionName: 'bench', getRemainingTimeInMillis: () => 900_000 };
const processor = new BatchProcessor(EventType.SQS);

function keyOf(record) {
  const header = record.headers.find((h) => KEY_HEADER in h);
  return Buffer.from(header[KEY_HEADER]).toString();
}

async function processRecord(record) {
  return handle({ key: keyOf(record) }, JSON.parse(Buffer.from(record.value, 'base64').toString()));
}

async function handler(event) {
  config.registerLambdaContext(context);
  const Records = Object.entries(event.records).flatMap(([id, records]) =>
    records.map((r) => ({ ...r, messageId: `${id}@${r.offset}` })),
  );
  return processPartialResponse({ Records }, processRecord, processor, { context });
}

let payload = '';
for await (const line of createInterface({ input: process.stdin })) {
  const [command, file] = line.split(' ');
  let answer = {};
  if (command === 'load') {
    payload = readFileSync(file, 'utf8');
  } else {
    handled = 0;
    const response = await handler(JSON.parse(payload));
    if (response.batchItemFailures.length > 0) {
      throw new Error(`records failed: ${JSON.stringify(response)}`);
    }
    answer = { handled };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
