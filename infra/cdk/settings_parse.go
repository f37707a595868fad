package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// setter sets a prop from a setting's value. Its error names the valid values.
type setter = func(*settings, string) error

func str[S ~string](field func(*settings) *S) setter {
	return func(s *settings, value string) error {
		*field(s) = S(value)
		return nil
	}
}

func boolean(field func(*settings) *bool) setter {
	return func(s *settings, value string) error {
		if value != "true" && value != "false" {
			return errors.New("true or false")
		}
		*field(s) = value == "true"
		return nil
	}
}

func integer(field func(*settings) *int) setter {
	return func(s *settings, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 { // 0 would mean the default
			return errors.New("a whole number above 0")
		}
		*field(s) = n
		return nil
	}
}

func duration(field func(*settings) *time.Duration) setter {
	return func(s *settings, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return errors.New("a duration above 0, like 500ms, 30s or 168h")
		}
		*field(s) = d
		return nil
	}
}

func list(field func(*settings) *[]string) setter {
	return func(s *settings, value string) error {
		items := strings.Split(value, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		if slices.Contains(items, "") {
			return errors.New("names separated by single commas")
		}
		*field(s) = items
		return nil
	}
}

// id parses the ID of an EC2 resource, for example vpc-0123456789abcdef0.
func id(kind string, field func(*settings) *string) setter {
	pattern := regexp.MustCompile(`^` + kind + `-[0-9a-f]{8,17}$`)
	return func(s *settings, value string) error {
		if !pattern.MatchString(value) {
			return fmt.Errorf("an ID like %s-0123456789abcdef0", kind)
		}
		*field(s) = value
		return nil
	}
}

func ids(kind string, field func(*settings) *[]string) setter {
	pattern := regexp.MustCompile(`^` + kind + `-[0-9a-f]{8,17}$`)
	return func(s *settings, value string) error {
		if err := list(field)(s, value); err != nil {
			return err
		}
		if slices.ContainsFunc(*field(s), func(id string) bool { return !pattern.MatchString(id) }) {
			return fmt.Errorf("IDs like %s-0123456789abcdef0, separated by commas", kind)
		}
		return nil
	}
}

func setARN(service string, field func(*settings) *string) setter {
	pattern := regexp.MustCompile(`^arn:aws[a-z-]*:` + service + `:[a-z0-9-]+:\d{12}:.+$`)
	return func(s *settings, value string) error {
		if !pattern.MatchString(value) {
			return fmt.Errorf("an ARN like arn:aws:%s:REGION:ACCOUNT:…", service)
		}
		*field(s) = value
		return nil
	}
}

// setTopics parses "payments" or "payments,refunds=idemsk-refunds".
func setTopics(s *settings, value string) error {
	var names []string
	if err := list(func(*settings) *[]string { return &names })(s, value); err != nil {
		return errors.New("TOPIC, or TOPIC=GROUP for any but the first, separated by commas")
	}
	s.props.Topics = nil
	for _, name := range names {
		topic, group, _ := strings.Cut(name, "=")
		s.props.Topics = append(s.props.Topics, consumer.Topic{Name: topic, Group: group})
	}
	return nil
}

func setStartingPosition(s *settings, value string) error {
	switch position := consumer.StartingPosition(value); position {
	case consumer.TrimHorizon, consumer.Latest:
		s.props.StartingPosition = position
		return nil
	case consumer.AtTimestamp:
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return errors.New("TRIM_HORIZON, LATEST, or a time like 2026-11-21T06:00:00Z")
	}
	s.props.StartingPosition, s.props.StartingTimestamp = consumer.AtTimestamp, at
	return nil
}

func setRetries(s *settings, value string) error {
	if value == "infinite" {
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return errors.New("infinite, or a whole number from 0 to 10000")
	}
	s.props.Retries, s.props.FiniteRetries = n, true
	return nil
}

func setFilters(s *settings, value string) error {
	var patterns []json.RawMessage
	if err := json.Unmarshal([]byte(value), &patterns); err != nil {
		return fmt.Errorf(`a JSON array of patterns, like [{"value":{"kind":["payment"]}}]: %w`, err)
	}
	for _, pattern := range patterns {
		s.props.Filters = append(s.props.Filters, string(pattern))
	}
	return nil
}

func registry(set func(*consumer.SchemaRegistry, string) error) setter {
	return func(s *settings, value string) error {
		if s.props.SchemaRegistry == nil {
			s.props.SchemaRegistry = &consumer.SchemaRegistry{}
		}
		return set(s.props.SchemaRegistry, value)
	}
}

func setSchemaFormat(r *consumer.SchemaRegistry, value string) error {
	if value != "json" && value != "source" {
		return errors.New("json or source")
	}
	r.Source = value == "source"
	return nil
}

func setSchemaValidate(r *consumer.SchemaRegistry, value string) error {
	for part := range strings.SplitSeq(value, ",") {
		switch part {
		case "key":
			r.ValidateKey = true
		case "value":
			r.ValidateValue = true
		default:
			return errors.New("key, value or key,value")
		}
	}
	return nil
}

// setOnFailure parses "none", "queue", "topic:NAME" or a bucket's ARN.
func setOnFailure(s *settings, value string) error {
	topic, isTopic := strings.CutPrefix(value, "topic:")
	switch {
	case value == "none":
	case value == "queue":
		s.props.OnFailure.Queue = true
	case isTopic:
		s.props.OnFailure.Topic = topic
	case strings.HasPrefix(value, "arn:"):
		s.props.OnFailure.BucketARN = value
	default:
		return errors.New("none, queue, topic:NAME or the ARN of an S3 bucket")
	}
	return nil
}

// setWait parses a duration. 0 is valid, although a zero prop means the default.
func setWait(s *settings, value string) error {
	switch value {
	case "deadline":
		return nil
	case "0":
		s.props.Wait = -1
		return nil
	}
	if duration(func(s *settings) *time.Duration { return &s.props.Wait })(s, value) != nil {
		return errors.New("deadline, 0, or a duration like 5s")
	}
	return nil
}

// setRetryDelay parses a duration. 0 is valid, although a zero prop means the default.
func setRetryDelay(s *settings, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return errors.New("a duration like 500ms or 1s, or 0 for no delay")
	}
	s.props.RetryDelay = d
	if d == 0 {
		s.props.RetryDelay = -1
	}
	return nil
}

func setOutageFailures(s *settings, value string) error {
	if value == "off" {
		s.props.OutageFailures = -1
		return nil
	}
	if integer(func(s *settings) *int { return &s.props.OutageFailures })(s, value) != nil {
		return errors.New("off, or a whole number above 0")
	}
	return nil
}

// setMaxResult parses a size. 0 is valid, although a zero prop means the default.
func setMaxResult(s *settings, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return errors.New("a whole number of bytes, 0 for none")
	}
	s.props.MaxResult = n
	if n == 0 {
		s.props.MaxResult = -1
	}
	return nil
}

func setEnvironment(s *settings, value string) error {
	err := json.Unmarshal([]byte(value), &s.props.Environment)
	if err != nil {
		return fmt.Errorf(`a JSON object of strings, like {"BANK_URL":"https://bank.example"}: %w`, err)
	}
	return nil
}

func setBatching(s *settings, value string) error {
	batching := true
	err := boolean(func(*settings) *bool { return &batching })(s, value)
	s.props.Unbatched = !batching
	return err
}

func setDeletionProtection(s *settings, value string) error {
	protected := true
	err := boolean(func(*settings) *bool { return &protected })(s, value)
	s.props.DeletionUnprotected = !protected
	return err
}

func setRemovalPolicy(s *settings, value string) error {
	switch value {
	case "retain":
		s.props.RemovalPolicy = awscdk.RemovalPolicy_RETAIN
	case "destroy":
		s.props.RemovalPolicy = awscdk.RemovalPolicy_DESTROY
	default:
		return errors.New("retain or destroy")
	}
	return nil
}
