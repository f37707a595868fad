// Appends each payment to a file, once by Powertools' idempotency utility. It knows nothing of the layer.
const fs = require("fs");
const { IdempotencyConfig, makeIdempotent } = require("@aws-lambda-powertools/idempotency");
const { DynamoDBPersistenceLayer } = require("@aws-lambda-powertools/idempotency/dynamodb");

const config = new IdempotencyConfig({ eventKeyJmesPath: "paymentId", expiresAfterSeconds: 7 * 24 * 3600 });
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.POWERTOOLS_TABLE });

const book = makeIdempotent(
  async (payment) => {
    fs.appendFileSync(process.env.BOOKINGS, JSON.stringify({ payment: payment.paymentId }) + "\n");
    return payment.paymentId;
  },
  { config, persistenceStore },
);

exports.handler = async (event, context) => {
  config.registerLambdaContext(context);
  const batchItemFailures = [];
  for (const [partition, records] of Object.entries(event.records)) {
    for (const record of records) {
      try {
        await book(JSON.parse(Buffer.from(record.value, "base64").toString()));
      } catch (error) {
        console.error(error);
        batchItemFailures.push({ itemIdentifier: { partition, offset: record.offset } });
      }
    }
  }
  return { batchItemFailures };
};
