// The function of function.mjs as a web service: node web.cjs PORT. CommonJS finds Express by NODE_PATH.
const express = require('express');

import('./function.mjs').then(({ handler }) =>
  express()
    .use(express.json({ limit: '6mb' }))
    .post('/records', async (request, response) => {
      await handler(request.body);
      response.json({ batchItemFailures: [] });
    })
    .listen(Number(process.argv[2]), '127.0.0.1'),
);
