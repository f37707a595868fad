// A function for MSK: it counts the payments, and reports the first record that it ever sees as failed, once.
let seen = false;

// Each invocation takes at least this time, so that a process is killed in the middle of one.
const duration = 20;

exports.handler = async (event) => {
  await new Promise((resolve) => setTimeout(resolve, duration));
  const batchItemFailures = [];
  let counted = 0;
  for (const record of Object.values(event.records).flat()) {
    if (!seen) {
      seen = true;
      batchItemFailures.push({ itemIdentifier: { partition: `${record.topic}-${record.partition}`, offset: record.offset } });
      continue;
    }
    const payment = JSON.parse(Buffer.from(record.value, "base64").toString());
    const header = record.headers.find((h) => "idempotency-key" in h)["idempotency-key"];
    if (payment.paymentId !== Buffer.from(header.map((b) => b & 0xff)).toString()) {
      throw new Error(`the header does not go with ${payment.paymentId}`);
    }
    counted++;
  }
  process.stdout.write(JSON.stringify({ _aws: {}, Executed: counted, BatchSize: counted + batchItemFailures.length }) + "\n");
  return { batchItemFailures };
};
