package consumer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// value points to a property's value. Each function below makes those of one kind.
type value struct {
	isSet    func() bool
	complete func()        // sets the default
	text     func() string // in the environment and in messages
	want     func() string // what is valid; "" if the value is
}

// anything is a value that is not checked here.
func anything[T comparable](field *T, def T) value {
	return checked(field, def, func(T) string { return "" })
}

func flag(field *bool) value { return anything(field, false) }

// checked returns the value of a field that has a default. An unset field without a default is not checked.
func checked[T comparable](field *T, def T, want func(T) string) value {
	var unset T
	return value{
		isSet:    func() bool { return *field != unset },
		complete: func() { *field = cmp.Or(*field, def) },
		text:     func() string { return show(*field) },
		want: func() string {
			if *field == unset && def == unset {
				return ""
			}
			return want(*field)
		},
	}
}

// word is one of some words, the first of which is the default.
func word[S ~string](field *S, allowed ...S) value {
	return checked(field, allowed[0], func(s S) string {
		if slices.Contains(allowed, s) {
			return ""
		}
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		return "one of " + strings.Join(words, ", ")
	})
}

// form is a text of some form. A token has none yet.
func form(field *string, def string, of format) value {
	return checked(field, def, of.check)
}

// required is a text that must be set.
func required(field *string, of format) value {
	v := form(field, "", of)
	v.want = func() string { return of.check(*field) }
	return v
}

func number(field *int, def, least, most int) value {
	return checked(field, def, func(n int) string { return within(n, least, most) })
}

func within(n, least, most int) string {
	if n < least || n > most {
		return fmt.Sprintf("%d to %d", least, most)
	}
	return ""
}

// lasting is a duration in whole units.
func lasting(field *time.Duration, def, least, most, unit time.Duration) value {
	return checked(field, def, func(d time.Duration) string {
		if d >= least && d <= most && d%unit == 0 {
			return ""
		}
		return wholes[unit] + short(least) + " to " + short(most)
	})
}

var wholes = map[time.Duration]string{time.Second: "whole seconds from ", time.Minute: "whole minutes from "}

// optional is a value whose zero is not its default. unset and zero are the texts of nil and of 0.
func optional[T comparable](field **T, def *T, unset, zero string, want func(T) string) value {
	var none T
	return value{
		isSet: func() bool { return *field != nil },
		complete: func() {
			if *field == nil {
				*field = def
			}
		},
		text: func() string {
			switch {
			case *field == nil:
				return unset
			case **field == none:
				return zero
			}
			return show(**field)
		},
		want: func() string {
			if *field == nil || want == nil {
				return ""
			}
			return want(**field)
		},
	}
}

// onOff is a switch that is on by default.
func onOff(field **bool) value {
	v := optional(field, new(true), "", "off", nil)
	text := v.text
	v.text = func() string {
		if text() == "off" {
			return "off"
		}
		return "on"
	}
	return v
}

// list is a list of texts of some form, at most so many.
func list(field *[]string, of format, most int) value {
	return value{
		isSet:    func() bool { return len(*field) > 0 },
		complete: func() {},
		text:     func() string { return strings.Join(*field, ",") },
		want: func() string {
			if len(*field) > most {
				return fmt.Sprintf("at most %d", most)
			}
			for i, s := range *field {
				if want := of.check(s); want != "" {
					return want + " for each"
				} else if slices.Contains((*field)[:i], s) {
					return "each once"
				}
			}
			return ""
		},
	}
}

// show formats a value as the environment has it.
func show(v any) string {
	if d, ok := v.(time.Duration); ok {
		return short(d)
	}
	return fmt.Sprint(v)
}

// short formats a duration without trailing zeros: 168h, not 168h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// format is the form of a text.
type format struct {
	valid func(string) bool
	want  string
}

func (f format) check(s string) string {
	if f.valid == nil || isToken(s) || f.valid(s) {
		return ""
	}
	return f.want
}

// isToken reports whether a string is known only when the stack is deployed.
func isToken(s string) bool { return strings.Contains(s, "${Token[") }

func pattern(expression, want string) format {
	return format{regexp.MustCompile(`^(?:` + expression + `)$`).MatchString, want}
}

func arn(service, rest, want string) format {
	return pattern(`arn:aws[a-z-]*:`+service+`:[a-z0-9-]+:\d{12}:`+rest,
		"arn:aws:"+service+":REGION:ACCOUNT:"+want)
}

// The forms of names and ARNs, as AWS, Kafka and the stores define them.
var (
	clusterARN = arn("kafka", `cluster/[^/]+/[^/]+`, "cluster/NAME/UUID")
	secretARN  = arn("secretsmanager", `secret:.+`, "secret:NAME")
	keyARN     = arn("kms", `key/.+`, "key/ID")
	glueARN    = arn("glue", `registry/[A-Za-z0-9$#_.-]+`, "registry/NAME")
	bucketARN  = pattern(`arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}`, "arn:aws:s3:::NAME")
	prefixARN  = pattern(`arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}(?:/[A-Za-z0-9!_.()/-]{1,512})?`,
		"arn:aws:s3:::NAME, or arn:aws:s3:::NAME/PREFIX")
	exportsARN = pattern(`arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?`,
		"arn:aws:s3:::NAME/PREFIX")

	broker = pattern(`(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?:\d{1,5}`,
		"HOST:PORT")
	topicName = format{kafka.ValidTopic, kafka.TopicNameRule}
	groupName = pattern(`[A-Za-z0-9\-/*:_+=.@]{1,200}`, "1 to 200 letters, digits or any of -/*:_+=.@")

	// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html has the runtimes that support wrapper
	// scripts, and https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html the form of handlers.
	runtimeName = pattern(regexp.QuoteMeta(ProvidedAL2023)+
		`|python3\.\d+|nodejs\d+\.x|java\d+(\.al2)?|dotnet\d+|ruby\d+\.\d+`,
		ProvidedAL2023+", or one of Python, Node.js, Java, .NET or Ruby, like python3.13")
	handlerName = pattern(`\S{1,128}`,
		"the function's handler as Function.Runtime takes it, like app.handler: up to 128 characters without blanks")

	tableNames = map[StoreType]format{
		StoreDynamoDB: pattern(`[A-Za-z0-9_.-]{3,255}`, "3 to 255 letters, digits, '_', '.' or '-'"),
		StorePostgres: pattern(`([A-Za-z_][A-Za-z0-9_-]{0,62}\.)?[A-Za-z_][A-Za-z0-9_-]{0,47}`,
			"a table's name, or its schema and name"),
		StoreRedis: pattern(`[A-Za-z0-9_.:-]{1,128}`, "1 to 128 letters, digits, '_', '.', ':' or '-'"),
	}
	email = pattern(`[^@\s]+@[^@\s]+\.[^@\s]+`, "an address like oncall@example.com")

	anyText format

	keyOrValue = pattern(`key|value`, "key or value")

	registryURI = format{
		func(s string) bool { return strings.HasPrefix(s, "https://") || glueARN.valid(s) },
		"a Glue registry's ARN, or the https URL of a Confluent registry",
	}
	filter = format{
		func(s string) bool {
			var pattern map[string]any
			return json.Unmarshal([]byte(s), &pattern) == nil && len(s) <= maxFilter
		},
		"a JSON object of at most " + strconv.Itoa(maxFilter) + ` bytes, like {"value":{"kind":["payment"]}},`,
	}
)

const maxFilter = 4096 // bytes of a pattern
