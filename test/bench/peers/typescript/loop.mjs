// A consumer process as a team writes it first: kafkajs, and two requests of the AWS SDK for each record, one record of a
// partition after another. kafkajs commits the offsets of a batch after its last record. Prints "handled 1" for each record that
// was handled.

import {
  ConditionalCheckFailedException,
  DynamoDBClient,
  PutItemCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { Kafka, logLevel } from 'kafkajs';

const { BENCH_TABLE: TableName, BENCH_BROKERS, BENCH_TOPIC, BENCH_GROUP, BENCH_PARTITIONS } = process.env;
const RETENTION_SECONDS = 7 * 24 * 3600;

const db = new DynamoDBClient({});
const seconds = () => Math.floor(Date.now() / 1000);
const expiration = () => ({ N: String(seconds() + RETENTION_SECONDS) });

// Reports whether the key is fresh, and marks it as started. A key that was started and not completed is an error.
async function claim(key) {
  try {
    await db.send(
      new PutItemCommand({
        TableName,
        Item: { id: { S: key }, status: { S: 'STARTED' }, expiration: expiration() },
        ConditionExpression: 'attribute_not_exists(#id) OR #expiration < :now',
        ExpressionAttributeNames: { '#id': 'id', '#expiration': 'expiration' },
        ExpressionAttributeValues: { ':now': { N: String(seconds()) } },
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      }),
    );
    return true;
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException && error.Item?.status.S === 'COMPLETED') {
      return false;
    }
    throw error;
  }
}

function complete(key, result) {
  return db.send(
    new UpdateItemCommand({
      TableName,
      Key: { id: { S: key } },
      UpdateExpression: 'SET #status = :status, #data = :data, #expiration = :expiration',
      ExpressionAttributeNames: { '#status': 'status', '#data': 'data', '#expiration': 'expiration' },
      ExpressionAttributeValues: { ':status': { S: 'COMPLETED' }, ':data': { S: result }, ':expiration': expiration() },
    }),
  );
}

async function handle(payment) {
  return payment.paymentId;
}

async function eachMessage({ message }) {
  const key = message.headers['idempotency-key'].toString();
  if (!(await claim(key))) {
    return;
  }
  const result = await handle(JSON.parse(message.value.toString()));
  process.stdout.write('handled 1\n');
  await complete(key, result);
}

const kafka = new Kafka({ brokers: BENCH_BROKERS.split(','), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: BENCH_GROUP });
await consumer.connect();
await consumer.subscribe({ topics: [BENCH_TOPIC], fromBeginning: true });
await consumer.run({ partitionsConsumedConcurrently: Number(BENCH_PARTITIONS), eachMessage });
