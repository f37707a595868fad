// Sends each payment of a topic or a queue to a ledger, which refuses some. It knows nothing of idempotency.
async function book(payment) {
  const response = await fetch(process.env.LEDGER_URL, { method: "POST", body: JSON.stringify(payment) });
  if (!response.ok) {
    throw new Error(`the ledger answers ${response.status}`);
  }
}

exports.handler = async (event) => {
  for (const record of Object.values(event.records ?? {}).flat()) {
    await book(JSON.parse(Buffer.from(record.value, "base64").toString()));
  }
  for (const message of event.Records ?? []) {
    await book(JSON.parse(message.body));
  }
};
