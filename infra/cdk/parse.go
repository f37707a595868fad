package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// parseFunc sets a field, or s, to a setting's value. Its error names the valid values.
type parseFunc = func(s *settings, field reflect.Value, value string) error

func (g *setting) set(s *settings, value string) error {
	field := reflect.ValueOf(s).Elem()
	for name := range strings.SplitSeq(g.field, ".") {
		if field.Kind() == reflect.Pointer { // a group that may be absent
			if field.IsNil() {
				field.Set(reflect.New(field.Type().Elem()))
			}
			field = field.Elem()
		}
		field = field.FieldByName(name)
	}
	if g.parse != nil {
		return g.parse(s, field, value)
	}
	return parseValue(field, value)
}

// parseValue sets a field according to its type. In a field that is no pointer 0 would mean the default.
func parseValue(field reflect.Value, value string) error {
	least, bound := int64(1), " above 0"
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field, least, bound = field.Elem(), 0, ", 0 or more"
	}
	switch to := field.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil || int64(d) < least {
			return errors.New("a duration" + bound + ", like 500ms, 30s or 168h")
		}
		*to = d
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil || int64(n) < least {
			return errors.New("a whole number" + bound)
		}
		*to = n
	case *bool:
		if value != "true" && value != "false" {
			return errors.New("true or false")
		}
		*to = value == "true"
	case *[]string:
		items := strings.Split(value, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		if slices.Contains(items, "") {
			return errors.New("names separated by single commas")
		}
		*to = items
	default:
		field.SetString(value)
	}
	return nil
}

func id(kind string) string { return kind + `-[0-9a-f]{8,17}` }

func arn(service string) string { return `arn:aws[a-z-]*:` + service + `:[a-z0-9-]+:\d{12}:.+` }

// inForm parses one text, or several separated by commas, of a form.
func inForm(form, want string) parseFunc {
	pattern := regexp.MustCompile(`^` + form + `$`)
	return func(_ *settings, field reflect.Value, value string) error {
		for item := range strings.SplitSeq(value, ",") {
			if !pattern.MatchString(strings.TrimSpace(item)) {
				return errors.New(want)
			}
		}
		return parseValue(field, value)
	}
}

// orWord parses a value, or a word that leaves the field unset.
func orWord(word string) parseFunc {
	return func(_ *settings, field reflect.Value, value string) error {
		if value == word {
			return nil
		}
		if err := parseValue(field, value); err != nil {
			return fmt.Errorf("%s, or %w", word, err)
		}
		return nil
	}
}

// parseOutageFailures parses a number, or off.
func parseOutageFailures(s *settings, field reflect.Value, value string) error {
	if value == "off" {
		s.Idempotency.OutageFailures = new(0)
		return nil
	}
	if err := parseValue(field, value); err != nil || value == "0" {
		return errors.New("off, or a whole number above 0")
	}
	return nil
}

// parseTopics parses "payments" or "payments,refunds=idemsk-refunds".
func parseTopics(s *settings, _ reflect.Value, value string) error {
	for item := range strings.SplitSeq(value, ",") {
		topic, group, _ := strings.Cut(strings.TrimSpace(item), "=")
		if topic == "" {
			return errors.New("TOPIC, or TOPIC=GROUP for any but the first, separated by commas")
		}
		s.Source.Topics = append(s.Source.Topics, consumer.Topic{Name: topic, Group: group})
	}
	return nil
}

func parseExample(s *settings, _ reflect.Value, value string) error {
	if value != exampleLedger {
		return errors.New(exampleLedger + ", the demonstration (lambda/handler)")
	}
	s.Example = value
	return nil
}

func parseStartingPosition(s *settings, field reflect.Value, value string) error {
	at, err := time.Parse(time.RFC3339, value)
	switch {
	case err == nil:
		s.Source.StartingTimestamp = at
		value = string(awslambda.StartingPosition_AT_TIMESTAMP)
	case value != string(awslambda.StartingPosition_TRIM_HORIZON) &&
		value != string(awslambda.StartingPosition_LATEST):
		return errors.New("TRIM_HORIZON, LATEST, or a time like 2026-11-21T06:00:00Z")
	}
	return parseValue(field, value)
}

func parseFilters(s *settings, _ reflect.Value, value string) error {
	var patterns []json.RawMessage
	if err := json.Unmarshal([]byte(value), &patterns); err != nil {
		return fmt.Errorf(`a JSON array of patterns, like [{"value":{"kind":["payment"]}}]: %w`, err)
	}
	for _, pattern := range patterns {
		s.Source.Filters = append(s.Source.Filters, string(pattern))
	}
	return nil
}

// parseOnFailure parses "none", "queue", "topic:NAME" or a bucket's ARN.
func parseOnFailure(s *settings, _ reflect.Value, value string) error {
	topic, isTopic := strings.CutPrefix(value, "topic:")
	switch {
	case value == "none":
	case value == "queue":
		s.Source.OnFailure.Queue = true
	case isTopic:
		s.Source.OnFailure.Topic = topic
	case strings.HasPrefix(value, "arn:"):
		s.Source.OnFailure.BucketARN = value
	default:
		return errors.New("none, queue, topic:NAME or the ARN of an S3 bucket")
	}
	return nil
}

func parseEnvironment(s *settings, _ reflect.Value, value string) error {
	if err := json.Unmarshal([]byte(value), &s.Function.Environment); err != nil {
		return fmt.Errorf(`a JSON object of strings, like {"BANK_URL":"https://bank.example"}: %w`, err)
	}
	return nil
}

func parseRemovalPolicy(s *settings, _ reflect.Value, value string) error {
	if value != "retain" && value != "destroy" {
		return errors.New("retain or destroy")
	}
	s.RemovalPolicy = awscdk.RemovalPolicy(strings.ToUpper(value))
	return nil
}

// parseBatching parses true or false.
func parseBatching(_ *settings, field reflect.Value, value string) error {
	switch value {
	case "true":
		field.SetString("on")
	case "false":
		field.SetString("off")
	default:
		return errors.New("true or false")
	}
	return nil
}
