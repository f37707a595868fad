"""CloudFormation updates of AWS::Lambda::Alias, which community LocalStack gets wrong.

An alias whose function version changes keeps its identity on AWS. LocalStack takes it for one that must be replaced: it
creates the new alias, which ends in "Alias already exists", a rollback, and the loss of the alias. With this, creating an
alias that exists points it at the new version, and the clean-up of the one that was "replaced" lets it be.
"""

from localstack.runtime import hooks

CHANGEABLE = ("FunctionName", "Name", "FunctionVersion", "Description", "RoutingConfig")


def point(request):
    """Points the alias at the version that is desired."""
    model = request.desired_state
    changed = {name: model[name] for name in CHANGEABLE if model.get(name) is not None}
    model["Id"] = request.aws_client_factory.lambda_.update_alias(**changed)["AliasArn"]


def points_elsewhere(request):
    model, client = request.desired_state, request.aws_client_factory.lambda_
    try:
        alias = client.get_alias(FunctionName=model["FunctionName"], Name=model["Name"])
    except client.exceptions.ResourceNotFoundException:
        return False
    return alias["FunctionVersion"] != model["FunctionVersion"]


@hooks.on_infra_start()
def patch_alias_update():
    from localstack.services.cloudformation.resource_provider import OperationStatus, ProgressEvent
    from localstack.services.lambda_.resource_providers import lambda_alias

    class PatchedAliasProvider(lambda_alias.LambdaAliasProvider):
        def create(self, request):
            try:
                return super().create(request)
            except request.aws_client_factory.lambda_.exceptions.ResourceConflictException:
                point(request)
                return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=request.desired_state)

        def update(self, request):
            point(request)
            return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=request.desired_state)

        def delete(self, request):
            if points_elsewhere(request):
                return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=request.previous_state)
            return super().delete(request)

    lambda_alias.LambdaAliasProvider = PatchedAliasProvider  # where the plugin of this resource type looks for it
