# The variables have the names of the construct's properties (infra/cdk/consumer), with underscores. Times are in seconds.

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
  validation {
    condition     = contains(["TRIM_HORIZON", "LATEST"], var.starting_position)
    error_message = "Want TRIM_HORIZON or LATEST."
  }
}

variable "batch_size" {
  description = "Most records of an invocation."
  type        = number
  default     = 100
  validation {
    condition     = var.batch_size >= 1 && var.batch_size <= 10000 && var.batch_size == floor(var.batch_size)
    error_message = "Want 1 to 10000."
  }
}

variable "batch_window" {
  description = "Seconds for gathering a batch; 500 ms by default."
  type        = number
  default     = null
  validation {
    condition     = var.batch_window == null ? true : var.batch_window >= 1 && var.batch_window <= 300 && var.batch_window == floor(var.batch_window)
    error_message = "Want whole seconds, 1 to 300, or null."
  }
}

variable "pollers_min" {
  description = "Least event pollers of provisioned mode, which partial failures need."
  type        = number
  default     = 1
  validation {
    condition     = var.pollers_min >= 1 && var.pollers_min <= 200 && var.pollers_min == floor(var.pollers_min)
    error_message = "Want 1 to 200."
  }
}

variable "pollers_max" {
  description = "Most event pollers."
  type        = number
  default     = 10
  validation {
    condition     = var.pollers_max >= var.pollers_min && var.pollers_max <= 2000 && var.pollers_max == floor(var.pollers_max)
    error_message = "Want pollers_min to 2000."
  }
}

variable "lease" {
  description = "Seconds for which a claim holds. Less than timeout."
  type        = number
  default     = 30
  validation {
    condition     = var.lease >= 0.1 && var.lease <= 3600
    error_message = "Want 0.1 to 3600 seconds."
  }
}

variable "timeout" {
  description = "Timeout of the function in seconds, more than lease, at most 840: the event source allows 14 minutes."
  type        = number
  default     = 60
  validation {
    condition     = var.timeout > var.lease && var.timeout >= 1 && var.timeout <= 840 && var.timeout == floor(var.timeout)
    error_message = "Want whole seconds, at most 840, as event sources of Kafka do, and more than lease: a handler would outlive its invocation."
  }
}

variable "memory" {
  description = "Memory of the function in MB."
  type        = number
  default     = 512
  validation {
    condition     = var.memory >= 128 && var.memory <= 10240 && var.memory == floor(var.memory)
    error_message = "Want 128 to 10240 MB."
  }
}

variable "reserved_concurrency" {
  description = "Most concurrent invocations; -1 reserves none."
  type        = number
  default     = -1
  validation {
    condition     = var.reserved_concurrency == -1 || var.reserved_concurrency >= 1 && var.reserved_concurrency == floor(var.reserved_concurrency)
    error_message = "Want 1 or more, or -1 for none: with 0 the function is never invoked."
  }
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
  validation {
    condition = contains([
      1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
    ], var.log_retention_days)
    error_message = "Want days that CloudWatch Logs offers, such as 7, 30, 90 or 365."
  }
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
  validation {
    condition     = var.max_lag >= 1 && var.max_lag <= 1000000000
    error_message = "Want 1 to 1000000000 records."
  }
}

variable "max_age" {
  description = "Alarm if a record is handled this many seconds after it was produced."
  type        = number
  default     = 900
  validation {
    condition     = var.max_age >= 1 && var.max_age <= 315360000
    error_message = "Want 1 second to ten years."
  }
}

variable "max_in_progress" {
  description = "Alarm if a key is not settled this many seconds after its first claim."
  type        = number
  default     = 900
  validation {
    condition     = var.max_in_progress >= 1 && var.max_in_progress <= 315360000
    error_message = "Want 1 second to ten years."
  }
}
