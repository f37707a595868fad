"""Moves the objects of LocalStack's S3 into the instance's temporary folder, which ends with it. LocalStack itself always writes to /tmp."""

import os.path
import tempfile

from localstack.runtime import hooks


@hooks.on_infra_start()
def move_s3_folder():
    from localstack.services.s3 import provider

    provider.DEFAULT_S3_TMP_DIR = os.path.join(tempfile.gettempdir(), "s3")
