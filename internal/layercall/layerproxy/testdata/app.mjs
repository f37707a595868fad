// Appends each payment to a file. It knows nothing of idempotency.
import { appendFileSync } from "node:fs";

class PermanentError extends Error { name = "PermanentError"; }
class UnavailableError extends Error { name = "UnavailableError"; }

const text = (base64) => Buffer.from(base64, "base64").toString();

export async function handler(event) {
  for (const record of Object.values(event.records).flat()) {
    appendFileSync(process.env.BOOKINGS, text(record.key) + "\n");
    if (text(record.value) === "die") process.exit(9);
    if (text(record.value) === "raise") throw new RangeError("no such account");
    if (text(record.value) === "closed") throw new PermanentError("the account is closed");
    if (text(record.value) === "down") throw new UnavailableError("the bank is down: retry after 1h");
  }
}
