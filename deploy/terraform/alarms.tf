locals {
  function = { FunctionName = aws_lambda_function.consumer.function_name }
  minutes  = ceil(var.timeout / 60)
  # The minutes in which three datapoints can occur if every invocation takes the whole timeout, and one for late data.
  often = max(5, 4 * local.minutes + 1)
  late  = max(15, 4 * local.minutes + 1)

  # Docs/operations.md has a procedure for each. An alarm rises if `of` minutes of `in` reach the threshold.
  alarms = {
    DeadLetters      = { namespace = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", dimensions = { QueueName = aws_sqs_queue.dead_letters.name }, statistic = "Maximum", threshold = 1, of = 1, in = 1 }
    StoreThrottles   = { namespace = "AWS/DynamoDB", metric = "WriteThrottleEvents", dimensions = { TableName = aws_dynamodb_table.keys.name }, statistic = "Sum", threshold = 1, of = 3, in = 5 }
    Lag              = { namespace = "AWS/Lambda", metric = "OffsetLag", dimensions = local.function, statistic = "Maximum", threshold = var.max_lag, of = 15, in = 15 }
    Errors           = { namespace = "AWS/Lambda", metric = "Errors", dimensions = local.function, statistic = "Sum", threshold = 1, of = 3, in = local.often }
    Throttles        = { namespace = "AWS/Lambda", metric = "Throttles", dimensions = local.function, statistic = "Sum", threshold = 1, of = 3, in = 5 }
    Duration         = { namespace = "AWS/Lambda", metric = "Duration", dimensions = local.function, statistic = "Maximum", threshold = 800 * var.timeout, of = 2, in = max(5, 3 * local.minutes + 1) }
    StoreDown        = { namespace = "idemsk", metric = "StoreDown", dimensions = local.function, statistic = "Sum", threshold = 1, of = 3, in = local.often }
    HandlerDown      = { namespace = "idemsk", metric = "HandlerDown", dimensions = local.function, statistic = "Sum", threshold = 1, of = 3, in = local.often }
    Blocked          = { namespace = "idemsk", metric = "Blocked", dimensions = local.function, statistic = "Sum", threshold = 1, of = 1, in = 1 }
    DeadLettered     = { namespace = "idemsk", metric = "DeadLettered", dimensions = local.function, statistic = "Sum", threshold = 1, of = 1, in = 1 }
    Fenced           = { namespace = "idemsk", metric = "Fenced", dimensions = local.function, statistic = "Sum", threshold = 1, of = 1, in = 1 }
    CompletionFailed = { namespace = "idemsk", metric = "CompletionFailed", dimensions = local.function, statistic = "Sum", threshold = 1, of = 1, in = 1 }
    RecordAge        = { namespace = "idemsk", metric = "RecordAge", dimensions = local.function, statistic = "Maximum", threshold = 1000 * var.max_age, of = 3, in = local.late }
    InProgress       = { namespace = "idemsk", metric = "InProgressAge", dimensions = local.function, statistic = "Maximum", threshold = 1000 * var.max_in_progress, of = 3, in = local.late }
  }
}

resource "aws_cloudwatch_metric_alarm" "alarm" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "idemsk: ${each.key}; docs/operations.md has the procedure."
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  threshold           = each.value.threshold
  datapoints_to_alarm = each.value.of
  evaluation_periods  = each.value.in
  period              = 60
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
}
