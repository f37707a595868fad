"""LocalStack plugin: Lambda without Docker for functions that are one native `bootstrap` (runtimes provided.*).

LocalStack's own executor starts a container per function and talks to a helper binary in it. This one starts the
bootstrap as a process of this host and serves it the Lambda Runtime API itself:

    executor.py       what LocalStack calls; one executor is one Lambda execution environment
    sandbox.py        one function process from its start to its death
    runtime_api.py    the HTTP API the function process talks to
    answers.py        error documents and log lines, worded as AWS words them
    kafka_mapping.py  event source mappings on Kafka: created, listed, updated and deleted; nothing is polled
    alias_update.py   CloudFormation updates of an alias

Beside that, loopback_gateway.py keeps LocalStack off the network.
"""
