package layercall

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
)

// meaning describes what an error does to its record.
func meaning(err error) string {
	what := "retry"
	switch {
	case err == nil:
		return "complete"
	case idem.IsPermanent(err):
		what = "permanent"
	case idem.IsUnavailable(err):
		what = "unavailable"
	}
	if idem.IsOutcomeUnknown(err) {
		what = strings.TrimPrefix(what+" unknown", "retry ")
	}
	if after := idem.RetryDelay(err); after > 0 {
		return fmt.Sprintf("%s after %v", what, after)
	}
	return what
}

func TestFailuresOfItems(t *testing.T) {
	for fields, want := range map[string][2]string{ // what the failure means, and what its text has
		`{}`:                         {"retry", "named the record in batchItemFailures"},
		`{"error":"closed"}`:         {"retry", "closed"},
		`{"retryAfterMs":5000}`:      {"retry after 5s"},
		`{"retryAfterMs":999999999}`: {"retry after 24h0m0s"},
		`{"permanent":true,"error":"closed","retryAfterMs":5000}`: {"permanent", "closed"},
		`{"unavailable":true}`: {"unavailable",
			"named the record in batchItemFailures"},
		`{"unavailable":true,"error":"the bank is down"}`: {"unavailable",
			"the bank is down"},
		`{"unavailable":true,"retryAfterMs":30000}`: {"unavailable after 30s"},
		`{"unavailable":true,"retryAfterMs":-1}`:    {"unavailable"},
		`{"unavailable":true,"retryAfterMs":"30s"}`: {"unavailable",
			"of another type: retryAfterMs"},
		`{"unavailable":true,"permanent":false}`: {"unavailable"},
		`{"unavailable":true,"permanent":null}`:  {"unavailable"},
		`{"unavailable":"yes"}`: {"retry",
			"of another type: unavailable"},
		`{"unavailable":1,"permanent":true}`: {"permanent",
			"of another type: unavailable"},
		`{"unavailable":true,"permanent":true,"error":"closed"}`: {"retry",
			"closed (ignored, because a failure can't be both: permanent, unavailable)"},
		`{"unavailable":true,"permanent":true,"retryAfterMs":5000}`: {"retry after 5s",
			"can't be both"},
		`{"Unavailable":true}`:                        {"retry"},
		`{"outcomeUnknown":true,"error":"no answer"}`: {"unknown", "no answer"},
		`{"outcomeUnknown":true,"unavailable":true}`:  {"unavailable unknown"},
		`{"outcomeUnknown":true,"permanent":true}`:    {"permanent unknown"},
		`{"outcomeUnknown":true,"retryAfterMs":5000}`: {"unknown after 5s"},
		`{"outcomeUnknown":"yes"}`:                    {"retry", "of another type: outcomeUnknown"},
		`{"errorType":"PermanentError","error":"no, retry after 30s","x":[{}]}`: {"retry",
			"no, retry after 30s"},
	} {
		var item map[string]json.RawMessage
		if err := json.Unmarshal([]byte(fields), &item); err != nil {
			t.Fatal(err)
		}
		if err := failureOf(item); meaning(err) != want[0] || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%s: %s, %q; want %s, a text with %q", fields, meaning(err), err, want[0], want[1])
		}
	}
}

// The name of an error's class decides, as each runtime reports it. Only the exact name counts, except of
// timeouts.
func TestTypesOfErrors(t *testing.T) {
	for want, types := range map[string][]string{
		"permanent": {
			"PermanentError", "PermanentException", "com.example.PermanentException",
			"com.example.App$PermanentException", "App+PermanentException",
			"ledger::PermanentError", "ledger.errors.PermanentError", `App\PermanentException`,
			"Function<PermanentError>", "Function<Ledger::PermanentError>",
		},
		"unavailable": {"UnavailableError", "UnavailableException", "com.example.App$UnavailableException",
			"Function<UnavailableError>"},
		"unknown": {"OutcomeUnknownError", "com.example.App$OutcomeUnknownException", "TimeoutError", "ReadTimeout",
			"java.net.SocketTimeoutException", "TimeoutException", "Runtime.MarshalError",
			"Function<OutcomeUnknownError>", "Function<Net::ReadTimeout>", "Function<JSON::GeneratorError>",
			"Function<JSON::NestingError>", "Function<Encoding::UndefinedConversionError>"},
		"retry": {
			"", "Error", "ValueError", "permanentError", "PERMANENTERROR", "Permanent", "Unavailable",
			"NonPermanentError", "ServiceUnavailableException",
			"MyUnavailableError", "PermanentErrors", "PermanentError ", "PermanentError.Cause",
			"PermanentException$1", "PermanentError.", "PermanentError`1", "Function<PermanentError>>",
			"unavailable.Error", "Unavailable.Exception",
		},
	} {
		for _, name := range types {
			document, err := json.Marshal(map[string]any{"errorType": name, "errorMessage": "no such account"})
			if err != nil {
				t.Fatal(err)
			}
			notShown := "its error is no document with errorType or errorMessage (4 bytes, not shown)"
			for _, e := range []struct{ header, body, message string }{
				{"", string(document), "no such account"},
				{name, `{"errorMessage":"no such account"}`, "no such account"},
				{name, "4711", notShown},
			} {
				if err := FunctionError(e.header, []byte(e.body)); meaning(err) != want ||
					err.Error() != "the function failed: "+cmp.Or(name, "Error")+": "+e.message {
					t.Errorf("%q, header %q: %s, %q; want %s", e.body, e.header, meaning(err), err, want)
				}
			}
		}
	}
}

// The type in the document counts more than the one in the header: Python's runtime sends Unhandled there.
func TestTypeInTheDocumentCounts(t *testing.T) {
	for _, header := range []string{"Unhandled", "PermanentError"} {
		if got := meaning(FunctionError(header, []byte(`{"errorType":"UnavailableError"}`))); got != "unavailable" {
			t.Errorf("header %s: %s", header, got)
		}
	}
}

// A function whose answer the Runtime API did not take, or its runtime could not encode, has returned: its effects
// have taken place. The errors are those of AWS's runtimes.
func TestErrorsOfAnAnswer(t *testing.T) {
	for _, e := range []struct{ kind, message, want string }{
		{"Function.ResponseSizeTooLarge", "Response payload size (7000000 bytes) exceeded", "unknown"},
		{"Runtime.InvalidResponseModeHeader", "only streaming is allowed", "unknown"},
		{"Runtime.MarshalError", "Unable to marshal response: Object of type Decimal is not JSON serializable",
			"unknown"},
		{"Error", "Unable to stringify response body", "unknown"},
		{"TypeError", "Wrong arguments", "unknown"}, // Node.js: it returned a function or a symbol
		{"Runtime.JSONStringifyError", "Unable to stringify response body", "unknown"},
		{"java.io.UncheckedIOException", "An error occurred during JSON serialization of response", "unknown"},
		{"JsonSerializerException",
			"Error converting the response object of type Money from the Lambda function to JSON: a cycle", "unknown"},
		{"UnsupportedTypeError", "json: unsupported type: chan int", "unknown"},
		{"UnsupportedValueError", "json: unsupported value: NaN", "unknown"},
		{"MarshalerError", "json: error calling MarshalJSON for type ledger.Money", "unknown"},
		{"Exception", "The Lambda response cannot be encoded to JSON.\nThis error usually happens when", "unknown"},
		{`Bref\Runtime\ResponseTooBig`, "The Lambda response is too big and above the limit", "unknown"},
		{"Exception", "Error 500 while calling the Lambda runtime API: unknown error", "unknown"},
		// the event could not be decoded: the function was not called
		{"Runtime.UnmarshalError", "Unable to unmarshal input: Expecting value", "retry"},
		{"JsonSerializerException", "Error converting the Lambda event JSON payload to type Payment", "retry"},
		{"java.io.UncheckedIOException", "An error occurred during JSON parsing", "retry"},
	} {
		body, err := json.Marshal(map[string]any{"errorType": e.kind, "errorMessage": e.message})
		if err != nil {
			t.Fatal(err)
		}
		if got := meaning(FunctionError("", body)); got != e.want {
			t.Errorf("%s, %s: %s; want %s", e.kind, e.message, got, e.want)
		}
	}
}

func TestErrorsThatCannotBeReadAreRetried(t *testing.T) {
	for _, body := range []string{
		``, `null`, `"PermanentError"`, `["PermanentError"]`, `{}`, `{"errorType":["PermanentError"]}`,
		`{"errorType":"PermanentError"`,
		`{"errorType":"PermanentError","errorMessage":{"code":7}}`, `{"errorMessage":"PermanentError"}`,
		`{"errorMessage":"no, retry after 30s"}`,
		`{"errorType":"Error","errorMessage":"PermanentError: retry after 30s"}`,
		`{"errorType":null,"errorMessage":"UnavailableError"}`,
	} {
		err := FunctionError("", []byte(body))
		if meaning(err) != "retry" || len(body) > 2 && strings.Contains(err.Error(), body) {
			t.Errorf("%s: %s, %q; want retry, without the body", body, meaning(err), err)
		}
	}
}

// The delay is at the end of the message. An end that is no delay is none.
func TestDelayOfAnUnavailableError(t *testing.T) {
	for message, want := range map[string]string{
		"retry after 30s":                            "unavailable after 30s",
		"the bank is down: retry after 30":           "unavailable after 30s",
		"the bank is down, retry after 1m30s\n":      "unavailable after 1m30s",
		"retry after 5s failed: retry after 250ms":   "unavailable after 250ms",
		"retry after 48h":                            "unavailable after 24h0m0s",
		"retry after 99999":                          "unavailable after 24h0m0s",
		"":                                           "unavailable",
		"retry after":                                "unavailable",
		"retry after ":                               "unavailable",
		"retry after 0":                              "unavailable",
		"retry after -30s":                           "unavailable",
		"retry after -30":                            "unavailable",
		"retry after 1.5":                            "unavailable",
		"retry after 30 seconds":                     "unavailable",
		"retry after 30s, said the bank":             "unavailable",
		"retry after 30s.":                           "unavailable",
		"Retry After 30s":                            "unavailable",
		"retry after 9223372036854775807":            "unavailable",
		"retry after 99999999999999999999":           "unavailable",
		"retry after 9999999999999999h":              "unavailable",
		"retry after NaN":                            "unavailable",
		"retry after retry after 30s, said the bank": "unavailable",
	} {
		body, err := json.Marshal(map[string]any{"errorType": "UnavailableError", "errorMessage": message})
		if err != nil {
			t.Fatal(err)
		}
		if got := meaning(FunctionError("", body)); got != want {
			t.Errorf("%q: %s; want %s", message, got, want)
		}
	}
	if got := meaning(FunctionError("", []byte(
		`{"errorType":"com.example.UnavailableException","errorMessage":null}`))); got != "unavailable" {
		t.Errorf("without a message: %s", got)
	}
}
