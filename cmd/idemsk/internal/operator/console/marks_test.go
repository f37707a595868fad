package console_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/marked"
	"github.com/idemsk/idemsk/kafka"
)

// What failures leave in the store and in the dead letters has no marks on the pages: no value beside that of
// a dead letter, and no key if keys are hashed.
func TestMarksAreOnNoPage(t *testing.T) {
	t.Parallel()
	for _, hashed := range []bool{true, false} {
		t.Run("hashed "+strconv.FormatBool(hashed), func(t *testing.T) {
			t.Parallel()
			endpoint, db := clitest.NewDynamoDB(t)
			st, err := dynamostore.New(db, dynamostore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			var letters []kafka.DeadLetter
			texts, keys := map[string]string{}, clitest.OpenConsole(t, "--endpoint-url", endpoint)
			for _, failing := range marked.Failures() {
				f := marked.Function{Namespace: failing.Name, Store: st,
					Engine: idem.Config{HashKeys: hashed, Wait: -1}}
				letters = append(letters, f.Deliver(t, failing).Letters...)
				entry := "api/entry?topic=payments&key=" + marked.Key + "&namespace=" +
					url.QueryEscape(failing.Name)
				if status, text := keys.Ask(http.MethodGet, entry, nil); status == http.StatusOK {
					// otherwise it has the key that was searched
					texts[entry] = text
				}
			}
			_, texts["entries"] = keys.Ask(http.MethodGet, "api/entries", nil)
			_, texts["failures"] = keys.Ask(http.MethodGet, "api/entries?failure=true", nil)
			_, texts["report"] = keys.Ask(http.MethodPost, "api/reconcile", console.Export{})
			endpoint, queue := queueOf(t, letters)
			page := clitest.OpenConsole(t, "--store-url", "redis://127.0.0.1:1", "--endpoint-url", endpoint,
				"--queue-url", queue)
			_, texts["dead letters"] = page.Ask(http.MethodGet, "api/letters", nil)
			marked.Check(t, hashed, texts)
			for of, least := range map[string]int{"entries": 10, "failures": 10, "dead letters": 10,
				"report": 1} {
				if n := strings.Count(texts[of], `"token":`); n < least {
					t.Errorf("%s: only %d are shown: %s", of, n, texts[of])
				}
			}
		})
	}
}

// queueOf returns a queue with dead letters whose values were too large for them.
func queueOf(t *testing.T, letters []kafka.DeadLetter) (endpoint, queue string) {
	t.Helper()
	client, queue := awstest.NewQueue(t, "letters")
	for _, l := range letters {
		body, err := marked.WithoutRecord(l).Encode(1 << 18)
		if err != nil {
			t.Fatal(err)
		}
		text := string(body)
		if _, err := client.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &text}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(queue)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + u.Host, queue
}
