// A function that knows nothing of idempotency: what peer.mjs does with a record, without Powertools. It runs behind the layer.

async function handle(payment) {
  return payment.paymentId;
}

export async function handler(event) {
  const records = Object.values(event.records).flat();
  await Promise.all(records.map((r) => handle(JSON.parse(Buffer.from(r.value, 'base64').toString()))));
  process.stdout.write(`handled ${records.length}\n`);
}
