package kafka

import "regexp"

// topicName is what Kafka accepts, except for "." and "..".
// https://github.com/apache/kafka/blob/4.1.0/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// TopicNameRule describes the names that ValidTopic accepts.
const TopicNameRule = "1 to 249 letters, digits, '.', '_' and '-'"

// ValidTopic reports whether Kafka accepts a topic of that name.
func ValidTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }
