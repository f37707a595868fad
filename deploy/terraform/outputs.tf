output "table_name" {
  description = "Table of keys."
  value       = aws_dynamodb_table.keys.name
}

output "dead_letter_queue_url" {
  description = "Records that the function gave up."
  value       = aws_sqs_queue.dead_letters.url
}

output "function_name" {
  description = "The function."
  value       = aws_lambda_function.consumer.function_name
}

output "role_name" {
  description = "Role of the function: attach the permissions of your handler to it."
  value       = aws_iam_role.function.name
}

output "log_group_name" {
  description = "Log of the function."
  value       = aws_cloudwatch_log_group.function.name
}
