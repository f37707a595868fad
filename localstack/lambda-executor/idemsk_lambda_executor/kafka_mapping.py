"""Event source mappings on Kafka, which community LocalStack refuses with "Unsupported event source".

With these hooks a mapping on MSK or on self-managed Kafka can be created, read, listed, updated and deleted, so that
code and templates that deploy one can be tested. **Nothing is polled and no function is invoked by it.**
"""

from localstack.services.lambda_ import hooks
from localstack.services.lambda_.event_source_mapping.pollers.poller import Poller

# A mapping without EventSourceArn is on self-managed Kafka; LocalStack gives it an empty service name.
SELF_MANAGED = ""
DEFAULT_BATCH_SIZE = 100


class IdleKafkaPoller(Poller):
    """A poller that finds nothing, ever."""

    def __init__(self, arn: str | None = None, client=None, processor=None):
        super().__init__(source_arn=arn, source_client=client, processor=processor)

    def event_source(self) -> str:
        return "aws:kafka"

    def poll_events(self) -> None:
        pass


@hooks.create_event_source_poller()
def create_kafka_poller(holder, source_service, esm_config):
    if source_service in ("kafka", SELF_MANAGED):
        holder.create_poller_fn = IdleKafkaPoller


@hooks.set_event_source_config_defaults()
def set_kafka_defaults(defaults, request, service):
    if service in ("kafka", SELF_MANAGED):
        defaults["BatchSize"] = DEFAULT_BATCH_SIZE
