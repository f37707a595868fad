package consumer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

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

// forms are the forms of names and ARNs, as AWS, Kafka and the stores define them.
var forms = map[string]format{
	"clusterARN": arn("kafka", `cluster/[^/]+/[^/]+`, "cluster/NAME/UUID"),
	"secretARN":  arn("secretsmanager", `secret:.+`, "secret:NAME"),
	"keyARN":     arn("kms", `key/.+`, "key/ID"),
	"bucketARN":  pattern(`arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}`, "arn:aws:s3:::NAME"),
	"prefixARN": pattern(`arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}(?:/[A-Za-z0-9!_.()/-]{1,512})?`,
		"arn:aws:s3:::NAME, or arn:aws:s3:::NAME/PREFIX"),
	"exportsARN": pattern(`arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?`,
		"arn:aws:s3:::NAME/PREFIX"),

	"broker": pattern(`(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?:\d{1,5}`,
		"HOST:PORT"),
	"topic": {kafka.ValidTopic, kafka.TopicNameRule},
	"group": pattern(`[A-Za-z0-9\-/*:_+=.@]{1,200}`, "1 to 200 letters, digits or any of -/*:_+=.@"),

	// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html has the runtimes that support wrapper
	// scripts, and https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html the form of handlers.
	"runtime": pattern(regexp.QuoteMeta(ProvidedAL2023)+
		`|python3\.\d+|nodejs\d+\.x|java\d+(\.al2)?|dotnet\d+|ruby\d+\.\d+`,
		ProvidedAL2023+", or one of Python, Node.js, Java, .NET or Ruby, like python3.13"),
	"handler": pattern(`\S{1,128}`,
		"the function's handler as Function.Runtime takes it, like app.handler: up to 128 characters without blanks"),
	"variable": pattern(`[A-Za-z][A-Za-z0-9_]+`, "names of letters, digits and '_', a letter first"),

	string(StoreDynamoDB): pattern(`[A-Za-z0-9_.-]{3,255}`, "3 to 255 letters, digits, '_', '.' or '-'"),
	string(StorePostgres): pattern(`([A-Za-z_][A-Za-z0-9_-]{0,62}\.)?[A-Za-z_][A-Za-z0-9_-]{0,47}`,
		"a table's name, or its schema and name"),
	string(StoreRedis): pattern(`[A-Za-z0-9_.:-]{1,128}`, "1 to 128 letters, digits, '_', '.', ':' or '-'"),

	"email":    pattern(`[^@\s]+@[^@\s]+\.[^@\s]+`, "an address like oncall@example.com"),
	"registry": pattern(`https://.*|`+glue, "a Glue registry's ARN, or the https URL of a Confluent registry"),
	"filter": {isPattern, "a JSON object of at most " + strconv.Itoa(maxFilter) +
		` bytes, like {"value":{"kind":["payment"]}},`},
}

const glue = `arn:aws[a-z-]*:glue:[a-z0-9-]+:\d{12}:registry/[A-Za-z0-9$#_.-]+`

// isPattern reports whether a text is a pattern of Lambda's event filtering.
func isPattern(s string) bool {
	var pattern map[string]any
	return json.Unmarshal([]byte(s), &pattern) == nil && len(s) <= maxFilter
}

const maxFilter = 4096 // bytes
