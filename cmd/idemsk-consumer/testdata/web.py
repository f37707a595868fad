"""The function of payments.py as a web service: python web.py PORT."""

import sys

import fastapi
import uvicorn

import payments

app = fastapi.FastAPI()


@app.post("/records")
def records(event: dict):
    return payments.handler(event, None)


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
