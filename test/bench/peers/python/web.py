"""The function of function.py as a web service: python web.py PORT."""

import sys

import fastapi
import function
import uvicorn

app = fastapi.FastAPI()


@app.post("/records")
def records(event: dict):
    function.lambda_handler(event, None)
    return {"batchItemFailures": []}


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
