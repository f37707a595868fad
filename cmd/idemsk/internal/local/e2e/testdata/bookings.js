// Appends each payment to a file, with what idemsk local --bookings reads. It fails at an amount below MINIMUM, and
// always before the time OUTAGE_UNTIL, in seconds. It knows nothing of idempotency.
const fs = require("fs");

const text = (record, name) =>
  Buffer.from(record.headers.flatMap((h) => h[name] ?? []).map((b) => b & 0xff)).toString();

exports.handler = async (event, context) => {
  for (const record of Object.values(event.records).flat()) {
    if (Date.now() / 1000 < Number(process.env.OUTAGE_UNTIL ?? 0)) {
      throw new Error("the ledger does not answer");
    }
    const payment = JSON.parse(Buffer.from(record.value, "base64").toString());
    if (payment.amount < Number(process.env.MINIMUM ?? 0)) {
      throw new Error(`${payment.paymentId} is below the minimum`);
    }
    fs.appendFileSync(process.env.BOOKINGS, JSON.stringify({
      payment: payment.paymentId,
      request: context.awsRequestId,
      token: Number(text(record, "idemsk-token")),
      attempt: Number(text(record, "idemsk-attempt")),
    }) + "\n");
  }
  return process.env.ANSWER;
};
