# The variables have the names of the settings in infra/cdk/README.md, with underscores. Times are in seconds.

variable "name" {
  description = "Name of the function, and the beginning of the other names."
  type        = string
  default     = "idemsk"
}

variable "code" {
  description = "The .zip file of the function, with the program bootstrap in it."
  type        = string
}

variable "architecture" {
  description = "arm64 or x86_64, as bootstrap was built."
  type        = string
  default     = "arm64"
  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Want arm64 or x86_64."
  }
}

variable "cluster_arn" {
  description = "ARN of the MSK cluster, which is read with IAM authentication."
  type        = string
}

variable "topic" {
  description = "The topic."
  type        = string
}

variable "consumer_group" {
  description = "Consumer group of the event source. Another one starts at starting_position."
  type        = string
}

variable "namespace" {
  description = "Namespace of the keys; the consumer group by default. Another one forgets every key."
  type        = string
  default     = null
}

variable "starting_position" {
  description = "Where a new consumer group starts: TRIM_HORIZON or LATEST."
  type        = string
  default     = "TRIM_HORIZON"
}

variable "batch_size" {
  description = "Most records of an invocation."
  type        = number
  default     = 100
}

variable "batch_window" {
  description = "Seconds for gathering a batch; 500 ms by default."
  type        = number
  default     = null
}

variable "pollers_min" {
  description = "Least event pollers of provisioned mode, which partial failures need."
  type        = number
  default     = 1
}

variable "pollers_max" {
  description = "Most event pollers."
  type        = number
  default     = 10
}

variable "lease" {
  description = "Seconds for which a claim holds. Less than timeout."
  type        = number
  default     = 30
}

variable "timeout" {
  description = "Timeout of the function in seconds, more than lease."
  type        = number
  default     = 60
  validation {
    condition     = var.timeout > var.lease
    error_message = "Want more than lease: a handler would outlive its invocation."
  }
}

variable "memory" {
  description = "Memory of the function in MB."
  type        = number
  default     = 512
}

variable "reserved_concurrency" {
  description = "Most concurrent invocations; -1 reserves none."
  type        = number
  default     = -1
}

variable "environment" {
  description = "Further variables of the function: those of docs/configuration.md, and the handler's own."
  type        = map(string)
  default     = {}
  validation {
    condition = length(setintersection(keys(var.environment), [
      "IDEMSK_TABLE", "IDEMSK_DEAD_LETTER_QUEUE_URL", "IDEMSK_NAMESPACE", "IDEMSK_FAILURES", "IDEMSK_LEASE",
    ])) == 0
    error_message = "The module sets IDEMSK_TABLE, _DEAD_LETTER_QUEUE_URL, _NAMESPACE, _FAILURES and _LEASE itself."
  }
}

variable "log_retention_days" {
  description = "Days for which CloudWatch keeps the function's log."
  type        = number
  default     = 30
}

variable "deletion_protection" {
  description = "Whether the table of keys is protected against deletion."
  type        = bool
  default     = true
}

variable "alarm_topic_arn" {
  description = "SNS topic that gets all alarms; none by default."
  type        = string
  default     = null
}

variable "max_lag" {
  description = "Alarm if the consumer is this many records behind for 15 minutes."
  type        = number
  default     = 100000
}

variable "max_age" {
  description = "Alarm if a record is handled this many seconds after it was produced."
  type        = number
  default     = 900
}

variable "max_in_progress" {
  description = "Alarm if a key is not settled this many seconds after its first claim."
  type        = number
  default     = 900
}
