package foreign

import (
	"bytes"
	"encoding/json"
	"strings"
)

// OneALine says what a file of letters must be, and how others become such files.
const OneALine = "want one dead letter a line, as JSON: of aws sqs receive-message, jq -r '.Messages[].Body' FILE; " +
	"of letters that take several lines, jq -c . FILE"

// Explain says what a document is that is no dead letter, and what is wanted in its place; "" if it is not
// known. Dumps of topics are not read: in most of them, bytes that are not text are lost.
func Explain(body []byte) string {
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("[")) && json.Valid(body) {
		return "it is a list: jq -c '.[]' FILE writes its elements one a line"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	lower := make(map[string]bool, len(fields))
	for name := range fields {
		lower[strings.ToLower(name)] = true
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if lower[name] {
				return true
			}
		}
		return false
	}
	const fromTopic = ", in which bytes that are not text are lost: redrive from the topic, by --dead-letter-topic"
	switch {
	case has("messages"):
		return "it is the answer of aws sqs receive-message: its letters are jq -r '.Messages[].Body' FILE"
	case has("body") && has("messageid", "receipthandle"):
		return "it is a message of SQS: its letter is jq -r .Body FILE"
	case has("records"):
		return "it is an event of Lambda: invoke the function with it"
	case has("payload") && has("offset"):
		return "it is a record as kcat -J writes it" + fromTopic
	case has("offset") && has("partition", "partitionid") && has("value", "content", "message") && !has("error"):
		return "it is a record as a tool for Kafka exports it" + fromTopic
	}
	return ""
}
