// The function of payments.js as a web service: node web.js PORT.
const express = require("express");
const { handler } = require("./payments.js");

express()
  .use(express.json({ limit: "6mb" }))
  .post("/records", async (request, response) => response.json(await handler(request.body)))
  .listen(Number(process.argv[2]), "127.0.0.1");
