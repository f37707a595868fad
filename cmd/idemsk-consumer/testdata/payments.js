// Books each payment in a file, with the process that did it. It knows nothing of idempotency.
//
// As a Lambda function its handler is payments.handler. node payments.js PORT runs the same code as a web service.
const fs = require("fs");

const duration = 1; // ms of a booking, so that a process is killed in the middle of a call

const text = (record, name) =>
  Buffer.from(record.headers.flatMap((h) => h[name] ?? []).map((b) => b & 0xff)).toString();

exports.handler = async (event) => {
  const began = Date.now() / 1000;
  for (const record of Object.values(event.records).flat()) {
    await new Promise((resolve) => setTimeout(resolve, duration));
    fs.appendFileSync(process.env.BOOKINGS, JSON.stringify({
      payment: Buffer.from(record.key, "base64").toString(),
      process: process.pid,
      parent: process.ppid,
      began,
      attempt: Number(text(record, "idemsk-attempt")),
    }) + "\n");
  }
  return { batchItemFailures: [] };
};

if (require.main === module) {
  require("http").createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    response.end(JSON.stringify(await exports.handler(JSON.parse(Buffer.concat(chunks)))));
  }).listen(Number(process.argv[2]), "127.0.0.1");
}
