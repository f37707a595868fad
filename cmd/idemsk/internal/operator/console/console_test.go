package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	p := clitest.OpenConsole(t, "--endpoint-url", endpoint, "--namespace", "ledger", "--topic", "payments",
		"--allow-changes")
	if s := clitest.Answer[console.Store](p, "GET", "api/store", nil); s.Place != "the table idemsk" ||
		!strings.Contains(s.Cost, "read units for a full scan") || !s.Changes || s.Namespace != "ledger" {
		t.Errorf("%+v", s)
	}
	done := clitest.Answer[console.Entry](p, "GET", "api/entry?key=done&namespace=ledger&topic=payments", nil)
	if done.Key != "ledger#payments#done" || done.State != console.Completed ||
		!strings.HasPrefix(done.Result, `{"balance":1250}`) || done.Token == 0 {
		t.Errorf("%+v", done)
	}
	for query, want := range map[string]string{
		"status=FAILED":               "ledger@payments-0@6200@1767231800000",
		"status=STARTED&overdue=true": "ledger#payments#dead",
		"before=49h":                  "ledger@payments-0@6200@1767231800000",
		"has=fly":                     "ledger#payments#flying",
	} {
		if l := clitest.Answer[console.Listing](p, "GET", "api/entries?"+query, nil); len(l.Entries) != 1 ||
			l.Entries[0].Key != want || l.Read != 8 || l.Cursor != "" {
			t.Errorf("%s: %+v; want %s of 8", query, l, want)
		}
	}
	if l := clitest.Answer[console.Listing](p, "GET", "api/entries?failure=true", nil); len(l.Entries) != 2 {
		t.Errorf("failures: %+v; want the failed and the released one", l)
	}
	p.Refused("GET", "api/entry?key=none", nil, http.StatusNotFound, "Keys are stored as")
	p.Refused("GET", "api/entry?key=none&topic=payments", nil, http.StatusBadRequest,
		"a topic needs the namespace")
	p.Refused("GET", "api/entry", nil, http.StatusBadRequest, "empty")
	p.Refused("GET", "api/entries?status=DONE", nil, http.StatusBadRequest, "unknown status")
	p.Refused("GET", "api/entries?before=soon", nil, http.StatusBadRequest, "want a time like")
	p.Refused("GET", "api/entries?cursor=x", nil, http.StatusGone, "Read it again")
	p.Refused("GET", "api/letters", nil, http.StatusBadRequest, "--queue-url")
	p.Refused("GET", "api/parked", nil, http.StatusBadRequest, "--outbox-table")
	p.Refused("POST", "api/actions", console.Change{Action: "delete", Key: done.Key, Token: done.Token + 1},
		http.StatusConflict, fmt.Sprintf("version %d", done.Token))
	p.Refused("POST", "api/actions", console.Change{Action: "explode"}, http.StatusBadRequest, "explode")
	p.Refused("POST", "api/actions", map[string]int{"acton": 1}, http.StatusBadRequest, "unknown field")
	clitest.Answer[map[string]string](p, "POST", "api/actions",
		console.Change{Action: "delete", Key: done.Key, Token: done.Token})
	p.Refused("GET", "api/entry?key="+url.QueryEscape(done.Key), nil, http.StatusNotFound, "no entry")
}

// The report is that of idemsk reconcile.
func TestConsoleReconciles(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	p := clitest.OpenConsole(t, "--endpoint-url", endpoint)
	counts := func(e console.Export) string {
		r := clitest.Answer[console.Report](p, "POST", "api/reconcile", e)
		var all []string
		for _, g := range r.Groups {
			all = append(all, fmt.Sprint(g.Count))
		}
		return fmt.Sprint(r.Records, r.Rows, r.Matched, all)
	}
	if got := counts(console.Export{}); got != "8 0 0 [1 1 0 0 0 0]" {
		t.Errorf("without an export: %s", got)
	}
	export := console.Export{Name: "b.csv", Field: "id", Text: "id\ndone\nghost\nflying\ndone\n",
		Namespace: "ledger", Topic: "payments"}
	if got := counts(export); got != "8 4 1 [1 1 3 1 1 1]" {
		t.Errorf("with an export: %s", got)
	}
	export.Field = "key"
	p.Refused("POST", "api/reconcile", export, http.StatusBadGateway, "key")
	p.Refused("POST", "api/actions", console.Change{Action: "delete", Key: "k", Token: 1},
		http.StatusForbidden, "--allow-changes")
}

// Dead letters are read without being taken. Without a destination they stay.
func TestConsoleReadsDeadLetters(t *testing.T) {
	t.Parallel()
	endpoint, _ := clitest.NewDynamoDB(t)
	client, queue := awstest.NewQueue(t, "letters")
	body, err := json.Marshal(kafka.DeadLetter{Topic: "payments", IdempotencyKey: "ledger#payments#p",
		Token: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{strings.Replace(string(body), `"code":""`, `"code":"permanent"`, 1),
		"another's"} {
		if _, err := client.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String(text)}); err != nil {
			t.Fatal(err)
		}
	}
	// The queue of idemsk local is at another port than its DynamoDB.
	at := []string{"--store-url", "redis://127.0.0.1:1", "--endpoint-url", "http://127.0.0.1:1",
		"--allow-changes", "--queue-url"}
	p := clitest.OpenConsole(t, append(at, queue)...)
	for range 2 {
		if got := clitest.Answer[console.Letters](p, "GET", "api/letters", nil); len(got.Letters) != 1 ||
			got.Letters[0].Token != 7 || len(got.Others) != 1 || got.More {
			t.Errorf("%+v; want one letter and another's message", got)
		}
	}
	p.Refused("POST", "api/actions", console.Change{Action: "redrive"}, http.StatusBadGateway,
		"it is a record of the topic payments: give --brokers")
	p.Refused("GET", "api/entry?key=k", nil, http.StatusBadGateway, "redisstore")
	p = clitest.OpenConsole(t, append(at, queue+"-none")...)
	p.Refused("GET", "api/letters", nil, http.StatusBadGateway, "there is no such queue")
	p = clitest.OpenConsole(t, "--endpoint-url", endpoint, "--table", "missing")
	p.Refused("GET", "api/entries", nil, http.StatusBadGateway, "check the name of the table")
	p = clitest.OpenConsole(t, "--endpoint-url", "http://127.0.0.1:1")
	p.Refused("GET", "api/entry?key=k", nil, http.StatusBadGateway, "nothing listens at 127.0.0.1:1:")
}

// The letter of a message goes back to its queue, in the SQS of the queue of letters.
func TestConsoleRedrivesToAQueue(t *testing.T) {
	t.Parallel()
	endpoint, _ := clitest.NewDynamoDB(t)
	client, letters := awstest.NewQueue(t, "letters")
	source := awstest.CreateQueue(t, client, "payments")
	l := kafka.DeadLetter{Topic: "payments", Value: []byte("{}"), Cluster: "arn:aws:sqs:us-east-1:000000000000:payments",
		Error: store.Failure{Code: store.CodePermanent}}
	body, err := l.Encode(1000)
	if err == nil {
		_, err = client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &letters, MessageBody: aws.String(string(body))})
	}
	if err != nil {
		t.Fatal(err)
	}
	p := clitest.OpenConsole(t, "--endpoint-url", endpoint, "--allow-changes", "--queue-url", letters)
	clitest.Answer[map[string]string](p, "POST", "api/actions", console.Change{Action: "redrive"})
	for url, want := range map[string]int{letters: 0, source: 1} {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
		if err != nil || len(out.Messages) != want {
			t.Errorf("%s has %+v, %v; want %d", url, out, err, want)
		}
	}
}

// The dead letters of a topic are shown until they are redriven.
func TestConsoleRedrivesFromATopic(t *testing.T) {
	t.Parallel()
	endpoint, _ := clitest.NewDynamoDB(t)
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"), kfake.SeedTopics(1, "letters"))
	clitest.FillLetterTopic(t, brokers, "payments", 1, 2, 3)
	p := clitest.OpenConsole(t, "--endpoint-url", endpoint, "--dead-letter-topic", "letters",
		"--brokers", brokers, "--allow-changes")
	wantLetters := func(want ...string) {
		t.Helper()
		var got []string
		for _, l := range clitest.Answer[console.Letters](p, "GET", "api/letters", nil).Letters {
			got = append(got, l.Source)
		}
		if !slices.Equal(got, want) {
			t.Errorf("letters of %q; want %q", got, want)
		}
	}
	wantLetters("payments-1@1", "payments-1@2", "payments-1@3")
	wantLetters("payments-1@1", "payments-1@2", "payments-1@3") // reading changes nothing
	first := clitest.Answer[console.Letters](p, "GET", "api/letters", nil).Letters[0]
	clitest.Answer[map[string]string](p, "POST", "api/actions",
		console.Change{Action: "redrive", Letters: []string{first.ID}})
	if got := clitest.ReadTopic(t, brokers, "payments", 1); len(got) != 1 ||
		got[0] != " {} idemsk-redrive=17 permanent" {
		t.Errorf("redriven: %q", got)
	}
	wantLetters("payments-1@2", "payments-1@3")
	clitest.Answer[map[string]string](p, "POST", "api/actions", console.Change{Action: "redrive"})
	wantLetters()
	clitest.ReadTopic(t, brokers, "payments", 3)
}

// What IAM refuses is said with the service's message, and stops nothing else.
func TestConsoleWithoutPermissions(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		action := r.Header.Get("X-Amz-Target")
		_, _ = fmt.Fprintf(w, `{"__type":"AccessDeniedException","message":"User: arn:aws:iam::1:user/op is not authorized to perform: %s"}`, action)
	}))
	t.Cleanup(refusing.Close)
	p := clitest.OpenConsole(t, "--endpoint-url", refusing.URL, "--queue-url", refusing.URL+"/1/letters",
		"--outbox-table", "outbox", "--allow-changes")
	if s := clitest.Answer[console.Store](p, "GET", "api/store", nil); s.Place != "the table idemsk" {
		t.Errorf("%+v", s)
	}
	for path, says := range map[string]string{
		"api/entry?key=k": "GetItem", "api/entries": "Scan", "api/letters": "ReceiveMessage",
		"api/parked": "Scan",
	} {
		p.Refused("GET", path, nil, http.StatusBadGateway, "is not authorized to perform: ")
		p.Refused("GET", path, nil, http.StatusBadGateway, says)
	}
	p.Refused("POST", "api/reconcile", console.Export{}, http.StatusBadGateway,
		"is not authorized to perform: ")
	p.Refused("POST", "api/actions", console.Change{Action: "delete", Key: "k", Token: 1},
		http.StatusBadGateway, "DeleteItem")
}
