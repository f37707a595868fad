// Sends each payment of a FIFO queue to a ledger, with one of Powertools' processors for such queues. It knows nothing of
// the layer.
const { Worker } = require("worker_threads");
const {
  SqsFifoPartialProcessor,
  SqsFifoPartialProcessorAsync,
  processPartialResponse,
  processPartialResponseSync,
} = require("@aws-lambda-powertools/batch");

const url = process.env.LEDGER_URL;

function check(status) {
  if (status !== 200) {
    throw new Error(`the ledger answers ${status}`);
  }
}

async function book(message) {
  check((await fetch(url, { method: "POST", body: message.body })).status);
}

// The handler of a synchronous processor waits for another thread.
function bookSync(message) {
  const status = new Int32Array(new SharedArrayBuffer(4));
  sender.postMessage({ body: message.body, status });
  Atomics.wait(status, 0, 0);
  check(status[0]);
}

const send = async ({ body, status }) => {
  status[0] = await fetch(url, { method: "POST", body }).then((response) => response.status, () => -1);
  Atomics.notify(status, 0);
};
const source = `const url = ${JSON.stringify(url)}; require("worker_threads").parentPort.on("message", ${send});`;
const sender = new Worker(source, { eval: true });
sender.unref();

const skipGroupOnError = process.env.SKIP_GROUP === "true";
const processors = {
  sync: (event, context) =>
    processPartialResponseSync(event, bookSync, new SqsFifoPartialProcessor(), { context, skipGroupOnError }),
  async: (event, context) =>
    processPartialResponse(event, book, new SqsFifoPartialProcessorAsync(), { context, skipGroupOnError }),
};

exports.handler = async (event, context) => processors[process.env.PROCESSOR](event, context);
