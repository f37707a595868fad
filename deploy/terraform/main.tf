resource "aws_dynamodb_table" "keys" {
  name                        = "${var.name}-keys"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "idempotencyKey"
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "idempotencyKey"
    type = "S"
  }
  ttl {
    attribute_name = "expiryTimestamp"
    enabled        = true
  }
  point_in_time_recovery {
    enabled = true
  }
  server_side_encryption {
    enabled = true
  }
  lifecycle {
    prevent_destroy = true # a new table has forgotten every key
  }
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_sqs_queue_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Deny"
      Action    = "sqs:*"
      Principal = { AWS = "*" }
      Resource  = aws_sqs_queue.dead_letters.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

resource "aws_cloudwatch_log_group" "function" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  skip_destroy      = true
}

resource "aws_iam_role" "function" {
  name        = var.name
  description = "idemsk consumer ${var.consumer_group}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "lambda.amazonaws.com" }
    }]
  })
}

locals {
  topic_arn = "${replace(var.cluster_arn, ":cluster/", ":topic/")}/${var.topic}"
  group_arn = "${replace(var.cluster_arn, ":cluster/", ":group/")}/${var.consumer_group}"
}

resource "aws_iam_role_policy" "function" {
  name = "consumer"
  role = aws_iam_role.function.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Table"
        Effect = "Allow"
        Action = [
          "dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PutItem",
          "dynamodb:UpdateItem",
        ]
        Resource = aws_dynamodb_table.keys.arn
      },
      {
        Sid      = "Logs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.function.arn}:*"
      },
      {
        Sid      = "DeadLetters"
        Effect   = "Allow"
        Action   = "sqs:SendMessage"
        Resource = aws_sqs_queue.dead_letters.arn
      },
      {
        Sid    = "Cluster"
        Effect = "Allow"
        Action = [
          "kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers", "kafka-cluster:Connect",
          "kafka-cluster:DescribeClusterDynamicConfiguration",
        ]
        Resource = var.cluster_arn
      },
      {
        Sid      = "Topic"
        Effect   = "Allow"
        Action   = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"]
        Resource = local.topic_arn
      },
      {
        Sid      = "Group"
        Effect   = "Allow"
        Action   = ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"]
        Resource = local.group_arn
      },
      {
        Sid    = "NetworkInterfaces" # EC2 has no ARN for these actions
        Effect = "Allow"
        Action = [
          "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces",
          "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
        ]
        Resource = "*"
      },
    ]
  })
}

resource "aws_lambda_function" "consumer" {
  function_name                  = var.name
  description                    = "idemsk: consumes ${var.topic} as ${var.consumer_group}"
  role                           = aws_iam_role.function.arn
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.architecture]
  filename                       = var.code
  source_code_hash               = filebase64sha256(var.code)
  timeout                        = var.timeout
  memory_size                    = var.memory
  reserved_concurrent_executions = var.reserved_concurrency
  publish                        = true

  logging_config {
    log_format            = "JSON"
    application_log_level = "INFO" # not above: it would drop the metrics
    log_group             = aws_cloudwatch_log_group.function.name
  }
  environment {
    variables = merge(var.environment, {
      IDEMSK_TABLE                 = aws_dynamodb_table.keys.name
      IDEMSK_DEAD_LETTER_QUEUE_URL = aws_sqs_queue.dead_letters.url
      IDEMSK_NAMESPACE             = coalesce(var.namespace, var.consumer_group)
      IDEMSK_LEASE                 = "${var.lease}s"
      IDEMSK_FAILURES              = "partial" # only with ReportBatchItemFailures below: without it records are lost
    })
  }
  depends_on = [aws_iam_role_policy.function]
}

resource "aws_lambda_alias" "live" {
  name             = "live"
  function_name    = aws_lambda_function.consumer.function_name
  function_version = aws_lambda_function.consumer.version
}

resource "aws_lambda_event_source_mapping" "topic" {
  function_name                      = aws_lambda_alias.live.arn
  event_source_arn                   = var.cluster_arn
  topics                             = [var.topic]
  starting_position                  = var.starting_position
  batch_size                         = var.batch_size
  maximum_batching_window_in_seconds = var.batch_window
  function_response_types            = ["ReportBatchItemFailures"]
  bisect_batch_on_function_error     = true
  maximum_retry_attempts             = -1 # a record that always fails becomes a dead letter of the function
  maximum_record_age_in_seconds      = -1

  amazon_managed_kafka_event_source_config {
    consumer_group_id = var.consumer_group
  }
  provisioned_poller_config {
    minimum_pollers = var.pollers_min
    maximum_pollers = var.pollers_max
  }
  metrics_config {
    metrics = ["EventCount", "ErrorCount", "KafkaMetrics"]
  }
  depends_on = [aws_iam_role_policy.function]
}
