package layercall

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// record is the only record of a call. Its header is the ID of the message that it is in an SQS queue.
func record() []kafka.RecordAttempt {
	return []kafka.RecordAttempt{{Record: &kafka.Record{Topic: "t", Offset: 1,
		Headers: []kafka.Header{{Key: "AWS.messageId", Value: []byte("m-1")}}}}}
}

// ways are the ways on which the answer of a function becomes the results of records, each with the item that
// names the record.
var ways = map[string]struct {
	item    string
	results func(t *testing.T, answer []byte) ([]idem.BulkResult, error)
}{
	"the layer on Kafka": {kafkaItem, func(_ *testing.T, answer []byte) ([]idem.BulkResult, error) {
		return new(records).results(record(), answer)
	}},
	"the layer on SQS": {`{"itemIdentifier":"m-1"}`, func(_ *testing.T, answer []byte) ([]idem.BulkResult, error) {
		return messages(nil).results(record(), answer)
	}},
	"a process, with many records": {kafkaItem, func(t *testing.T, answer []byte) ([]idem.BulkResult, error) {
		return answering(answer).Many(t.Context(), record())
	}},
	"a process, with one record": {kafkaItem, func(t *testing.T, answer []byte) ([]idem.BulkResult, error) {
		value, err := answering(answer).Each(t.Context(), *record()[0].Record)
		return []idem.BulkResult{{Value: value, Err: err}}, nil
	}},
}

const kafkaItem = `{"itemIdentifier":{"partition":"t-0","offset":1}}`

// answering returns a caller of a function with one answer.
func answering(answer []byte) *Caller {
	return &Caller{MaxEvent: 1 << 20,
		Runtime: func(context.Context, []byte) ([]byte, error) { return answer, nil }}
}

// text returns JSON as a JSON text.
func text(content string) string {
	quoted, _ := json.Marshal(content)
	return string(quoted)
}

// An answer that names the record as failed, but where nothing reads it, completes nothing, on each way. The
// error says what is wrong, and does not quote the answer.
func TestAnswersThatHideFailures(t *testing.T) {
	t.Parallel()
	const notJSON, elsewhere = "is not JSON, at byte", "where it is not read"
	for name, of := range map[string]struct {
		answer func(item string) string
		says   string
	}{
		"a value that is not JSON": {func(i string) string {
			return `{"batchItemFailures":[` + i + `],"who":"alice@example.com","mean":NaN}`
		}, notJSON},
		"cut off":       {func(i string) string { return `{"batchItemFailures":[` + i }, notJSON},
		"text behind":   {func(i string) string { return `{"batchItemFailures":[` + i + "]}\n<!-- app-1 -->" }, notJSON},
		"two documents": {func(i string) string { return `{}{"batchItemFailures":[` + i + `]}` }, notJSON},
		"a BOM":         {func(i string) string { return "\uFEFF" + `{"batchItemFailures":[` + i + `]}` }, notJSON},
		"UTF-16": {func(i string) string {
			return strings.ReplaceAll(`{"batchItemFailures":[`+i+`]}`, "", "\x00")
		}, notJSON},
		"single quotes": {func(i string) string {
			return strings.ReplaceAll(`{"batchItemFailures":[`+i+`]}`, `"`, `'`)
		}, notJSON},
		"a comma too many": {func(i string) string { return `{"batchItemFailures":[` + i + `],}` }, notJSON},
		"a word":           {func(string) string { return " ok " }, notJSON},

		"a text":             {func(i string) string { return text(`{"batchItemFailures":[` + i + `]}`) }, elsewhere},
		"a text of a text":   {func(i string) string { return text(text(` {"batchItemFailures":[` + i + `]}`)) }, elsewhere},
		"a printed document": {func(i string) string { return text("{'batchItemFailures': [" + i + "]}") }, elsewhere},
		"a body": {func(i string) string {
			return `{"statusCode":200,"body":{"batchItemFailures":[` + i + `]}}`
		}, elsewhere},
		"a body as text": {func(i string) string {
			return `{"statusCode":200,"body":` + text(`{"batchItemFailures":[`+i+`]}`) + `}`
		}, elsewhere},
		"a body in base64": {func(i string) string {
			return `{"statusCode":200,"isBase64Encoded":true,"body":"` + base64.StdEncoding.EncodeToString([]byte(
				`{"batchItemFailures":[`+i+`]}`)) + `"}`
		}, elsewhere},
		"a text in base64": {func(i string) string {
			return text(base64.RawURLEncoding.EncodeToString([]byte(`{ "who":"~~~???","batchItemFailures":[` + i + `]}`)))
		}, elsewhere},
		"base64 with line ends": {func(i string) string {
			encoded := base64.StdEncoding.EncodeToString([]byte(text(`{"batchItemFailures":[` + i + `]}`)))
			return text(encoded[:20] + "\r\n" + encoded[20:] + "\n")
		}, elsewhere},
		"base64 of base64": {func(i string) string {
			once := base64.StdEncoding.EncodeToString([]byte(`{"batchItemFailures":[` + i + `]}`))
			return `{"body":"` + base64.StdEncoding.EncodeToString([]byte(once)) + `"}`
		}, elsewhere},
		"base64 of a printed document": {func(i string) string {
			return text(base64.StdEncoding.EncodeToString([]byte("{'batchItemFailures': [" + i + "]}")))
		}, elsewhere},
		"base64 in a data URL": {func(i string) string {
			return text("data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(`{"batchItemFailures":[`+i+`]}`)))
		}, elsewhere},
		"base64 with a blank": {func(i string) string {
			encoded := base64.StdEncoding.EncodeToString([]byte(`{"batchItemFailures":[` + i + `]}`))
			return text(encoded[:16] + " " + encoded[16:])
		}, elsewhere},
		"printed identifiers": {func(string) string { return text(`{'batchItemFailures': ['x']}`) }, elsewhere},
		"printed in Ruby":     {func(string) string { return text(`{:batch_item_failures=>["x"]}`) }, elsewhere},
		"a second one, printed": {func(string) string {
			return `{"batchItemFailures":[],"body":"{'batchItemFailures': [{'itemIdentifier': 17}]}"}`
		}, elsewhere},
		"a second one, in base64": {func(i string) string {
			return `{"batchItemFailures":[],"body":"` + base64.StdEncoding.EncodeToString([]byte(
				`{"batchItemFailures":[`+i+`]}`)) + `"}`
		}, elsewhere},
		"the results": {func(i string) string { return `{"idemskResults":{"batchItemFailures":[` + i + `]}}` }, elsewhere},
		"an item of the results": {func(i string) string {
			return `{"idemskResults":[{"itemIdentifier":"m-1","batchItemFailures":[` + i + `]}]}`
		}, elsewhere},
		"a result": {func(i string) string {
			return `{"idemskResults":[{"itemIdentifier":"m-1","result":{"body":` + text(`{"batchItemFailures":[`+i+`]}`) + `}}]}`
		}, elsewhere},
		"the results beside a list": {func(i string) string {
			return `{"batchItemFailures":[],"idemskResults":[[{"batchItemFailures":[` + i + `]}]]}`
		}, elsewhere},
		"an item of the list": {func(i string) string {
			return `{"batchItemFailures":[` + strings.TrimSuffix(i, "}") + `,"batchItemFailures":[` + i + `]}]}`
		}, elsewhere},
		"a list":       {func(i string) string { return `[{"batchItemFailures":[` + i + `]}]` }, elsewhere},
		"items alone":  {func(i string) string { return `[` + i + `]` }, elsewhere},
		"other name":   {func(i string) string { return `{"failures":[` + i + `]}` }, elsewhere},
		"one item":     {func(i string) string { return i }, elsewhere},
		"an object":    {func(i string) string { return `{"a":[{"b":{"batchItemFailures":` + i + `}}]}` }, elsewhere},
		"capitals":     {func(i string) string { return `{"BatchItemFailures":[` + i + `]}` }, elsewhere},
		"small":        {func(i string) string { return `{"batchitemfailures":[` + i + `]}` }, elsewhere},
		"underscores":  {func(i string) string { return `{"batch_item_failures":[` + i + `]}` }, elsewhere},
		"a blank":      {func(i string) string { return `{"batchItemFailures ":[` + i + `]}` }, elsewhere},
		"one failure":  {func(i string) string { return `{"batchItemFailure":[` + i + `]}` }, elsewhere},
		"only its IDs": {func(string) string { return `{"batch_item_failures":["m-1","t-0@1"]}` }, elsewhere},
		"all in capitals": {func(i string) string {
			return `{"BatchItemFailures":[` + strings.ReplaceAll(i, "item", "Item") + `]}`
		}, elsewhere},
		"a blank of no JSON": {func(string) string { return "\v" }, notJSON},
		"another such blank": {func(string) string { return "\u00a0" }, notJSON},
		"an identifier twice": {func(i string) string {
			return `{"batchItemFailures":[` + strings.TrimSuffix(i, "}") + `,"itemIdentifier":1}` + `]}`
		}, "twice"},
		"a wrong record": {func(i string) string {
			return `{"batchItemFailures":[` + strings.NewReplacer("m-1", "alice", "t-0", "alice").Replace(i) + `]}`
		}, "a record that was not in the event"},
		"twice": {func(i string) string { return `{"batchItemFailures":[` + i + `],"batchItemFailures":[]}` }, elsewhere},
		"a second one, in the body": {func(i string) string {
			return `{"batchItemFailures":[],"body":` + text(`{"batchItemFailures":[`+i+`]}`) + `}`
		}, elsewhere},

		"the list as text": {func(i string) string { return `{"batchItemFailures":` + text(`[`+i+`]`) + `}` }, "no list of objects"},
		"a bad key": {func(i string) string {
			return `{"batchItemFailures":[` + strings.ReplaceAll(i, "item", "Item") + `]}`
		}, "bad identifier"},
	} {
		for way, w := range ways {
			answer := of.answer(w.item)
			got, err := w.results(t, []byte(answer))
			if err == nil {
				err = got[0].Err
			}
			if !idem.IsOutcomeUnknown(err) || !strings.Contains(err.Error(), of.says) ||
				strings.Contains(err.Error(), "alice") {
				t.Errorf("%s, %s: %s: %v; want a failure that says %q", way, name, answer, err, of.says)
			}
		}
	}
}

// An answer that names no record completes the records, whatever else it has.
func TestAnswersThatHideNothing(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		``, " \n", `null`, `{}`, `[]`, `""`, `"done"`, `3`, `true`, `[1]`, `{"statusCode":500}`,
		`{"batchItemFailures":[]}`, `{"batchItemFailures":null}`, `{"BatchItemFailures":[]}`,
		`{"statusCode":200,"body":"{\"batchItemFailures\": []}"}`, `{"batch_item_failures":null}`,
		`{"batch_item_failures":" [ ] "}`, `{"batchItemFailures":[],"stats":{"batchItemFailures":0,"took":1.5e3}}`,
		`"{\"batchItemFailures\":[]}"`, `[{"batchItemFailures":{}}]`, `"no batchItemFailures"`, `{"items":[{"id":1}]}`,
		`{"batchItemFailures":[],"done":[ITEM]}`, `{"idemskResults":[ITEM]}`,
		`{"idemskResults":[{"itemIdentifier":"m-1","result":{"batchItemFailures":[],"of":ITEM}}]}`,
		`{"photo":"eyJhIjoxfQ=="}`,
		`{"body":"eyJiYXRjaEl0ZW1GYWlsdXJlcyI6W119","isBase64Encoded":true}`, `"MTIz"`, `"done"`,
		`"{'batchItemFailures': []}"`, `"batchItemFailures: none"`, `"batchItemFailures=[ ]"`, `"aXRlbQ=="`,
	} {
		for way, w := range ways {
			got, err := w.results(t, []byte(strings.ReplaceAll(answer, "ITEM", w.item)))
			if err != nil || got[0].Err != nil {
				t.Errorf("%s: %s: %v, %v; want a success", way, answer, err, got)
			}
		}
	}
}

// An identifier that is none of a record of the call fails the call. It may be the function's own ID of a
// person, so the error does not quote it, on each way.
func TestForeignIdentifiersAreNotQuoted(t *testing.T) {
	t.Parallel()
	const own = "alice@example.com"
	for _, id := range []string{
		`"` + own + `"`, `{"partition":"` + own + `","offset":1}`, `{"partition":"t-0","offset":"` + own + `"}`,
		`{"partition":"` + own + `"}`, `{"` + own + `":1}`, `["` + own + `"]`,
		`4711`, `{"partition":"t-0","offset":4711}`, `{"partition":4711,"offset":1}`, `{"partition":"t-0","offset":4711.5}`,
	} {
		answer := `{"batchItemFailures":[{"itemIdentifier":` + id + `,"error":"` + own + `"}]}`
		for way, w := range ways {
			got, err := w.results(t, []byte(answer))
			if err == nil {
				err = got[0].Err
			}
			if !idem.IsOutcomeUnknown(err) || !strings.Contains(err.Error(), "batchItemFailures[0]") ||
				strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), "4711") {
				t.Errorf("%s: %s: %v; want a failure of the call that quotes nothing", way, answer, err)
			}
		}
	}
}
