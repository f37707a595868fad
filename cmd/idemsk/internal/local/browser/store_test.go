//go:build rest

package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// script is in keys, results, failures, letters and events.
const script = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>`

// shop is what the page of a store shows: keys and an outbox in PostgreSQL, dead letters in a queue, and the
// cluster that they came from.
type shop struct {
	t     *testing.T
	url   string
	queue string
	flags []string
	store *pgstore.Store
	pool  *pgxpool.Pool
	sqs   *sqs.Client
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, url: testkit.Run(t, pgserver.Start, pgserver.Config{}).URL()}
	var err error
	if s.pool, err = pgstore.NewPool(s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if _, err = pgstore.Migrate(t.Context(), s.pool, ""); err == nil {
		_, err = pgoutbox.Migrate(t.Context(), s.pool, "")
	}
	if err == nil {
		s.store, err = pgstore.New(s.pool, pgstore.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.sqs, s.queue = awstest.NewQueue(t, "payments-letters")
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "payments"),
		kfake.ListenFn(loopback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	queue, err := url.Parse(s.queue)
	if err != nil {
		t.Fatal(err)
	}
	s.flags = []string{"console", "--store-url", s.url, "--outbox-table", "outbox", "--queue-url", s.queue,
		"--endpoint-url", "http://" + queue.Host,
		"--brokers", cluster.ListenAddrs()[0], "--namespace", "ledger", "--topic", "payments", "--ui",
		"127.0.0.1:0"}
	s.fill()
	return s
}

// claim claims a key, whose record failed or not.
func (s *shop) claim(key string, lease time.Duration, set *store.Settlement) store.Entry {
	s.t.Helper()
	res := s.store.Claim(s.t.Context(), []store.ClaimRequest{{
		Key: "ledger#payments#" + key, Owner: "9f1c-" + key, Source: "payments-1@4711", Lease: lease,
		Retention: 168 * time.Hour, Fingerprint: store.FingerprintOf([]byte(key)),
	}})
	if res[0].Err != nil {
		s.t.Fatal(res[0].Err)
	}
	if set != nil {
		entry := res[0].Entry
		set.Key, set.Token, set.Owner, set.Retention = entry.Key, entry.Token, entry.Owner, 168*time.Hour
		if errs := s.store.Settle(s.t.Context(), []store.Settlement{*set}); errs != nil {
			s.t.Fatal(errs)
		}
	}
	return res[0].Entry
}

func (s *shop) fill() {
	s.t.Helper()
	failed := func(code, message string) *store.Settlement {
		return &store.Settlement{Op: store.OpFail, Failure: &store.Failure{Code: code, Message: message}}
	}
	for n := range 9 {
		s.claim(fmt.Sprintf("pay-%d", 1000+n), time.Hour,
			&store.Settlement{Op: store.OpComplete, Result: []byte(`{"balance":1250,"currency":"EUR"}`)})
	}
	s.claim("pay-2001", time.Hour, nil)
	s.claim("pay-2002", time.Millisecond, nil)
	s.claim("pay-2003", time.Hour, &store.Settlement{Op: store.OpRelease, Delay: time.Hour,
		Failure: &store.Failure{Code: store.CodeError, Message: "bank-7.internal: connection refused"}})
	for n := range 6 {
		key := fmt.Sprintf("pay-%d", 3001+n)
		s.letter(key, s.claim(key, time.Hour,
			failed(store.CodePermanent, fmt.Sprintf("account acc-%d does not exist", 17+n))),
			fmt.Sprintf("account acc-%d does not exist", 17+n))
	}
	for n := range 2 {
		key := fmt.Sprintf("pay-%d", 4001+n)
		s.letter(key, s.claim(key, time.Hour, failed(store.CodeExhausted, `currency "XXX" is not supported`)),
			`currency "XXX" is not supported`)
	}
	s.park("acc-1", "acc-2", "acc-3")
}

// fillScripts adds script wherever a record, a handler or Kafka can put it.
func (s *shop) fillScripts() {
	s.t.Helper()
	s.letter(script, s.claim(script, time.Hour,
		&store.Settlement{Op: store.OpFail,
			Failure: &store.Failure{Code: store.CodePermanent, Message: script}}), script)
	s.claim("done "+script, time.Hour, &store.Settlement{Op: store.OpComplete, Result: []byte(script)})
	s.park(script)
}

// park publishes events, and parks all.
func (s *shop) park(keys ...string) {
	s.t.Helper()
	tx, err := s.pool.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, key := range keys {
		if err = pgoutbox.Publish(s.t.Context(), tx,
			outbox.Event{Topic: "credited", Key: []byte(key)}); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err = tx.Exec(s.t.Context(), "UPDATE outbox SET parked_at = now(), attempts = 10, failure = 'topic \"credited\": UNKNOWN_TOPIC_OR_PARTITION'"); err == nil {
		err = tx.Commit(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// letter sends the dead letter of a key.
func (s *shop) letter(key string, entry store.Entry, message string) {
	s.t.Helper()
	l := kafka.DeadLetter{
		Topic: "payments", Partition: 1, Offset: entry.Token, Key: []byte(key),
		Value:          []byte(`{"paymentId":"` + key + `","account":"acc-17","amount":500}`),
		IdempotencyKey: entry.Key, Token: entry.Token, Attempts: 1,
		Error: store.Failure{Code: store.CodePermanent, Message: message},
	}
	body, err := json.Marshal(l)
	if err == nil {
		_, err = s.sqs.SendMessage(s.t.Context(),
			&sqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: aws.String(string(body))})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// console runs idemsk console, and returns the address of its page.
func (s *shop) console(flags ...string) string {
	s.t.Helper()
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, append(s.flags, flags...), cli.Streams{Out: io.Discard, Err: write}, "v1")
		_ = write.Close()
	}()
	s.t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			s.t.Errorf("idemsk console: exit %d", code)
		}
	})
	buf := make([]byte, 4096)
	n, _ := read.Read(buf)
	go func() { _, _ = io.Copy(io.Discard, read) }() // ends with the pipe
	page := regexp.MustCompile(`http://\S+`).FindString(string(buf[:n]))
	if page == "" {
		s.t.Fatalf("no page: %s", buf[:n])
	}
	return page
}

// fillIn fills in the first form of the view, and sends it.
func (b *browser) fillIn(values ...string) {
	b.t.Helper()
	list, err := json.Marshal(append([]string{}, values...))
	if err != nil {
		b.t.Fatal(err)
	}
	b.eval(fmt.Sprintf(`(() => { const f = document.querySelector('form'); %s.forEach((v, i) => { if (v !== '-') f.elements[i].value = v; }); f.requestSubmit(); return ''; })()`, list))
}

// Each view of the page of a store shows what is there, and each button does what it says.
func TestStoreViews(t *testing.T) {
	s := newShop(t)
	b := tab(t)
	b.page = s.console("--allow-changes")
	b.look(1280, 800, "light")
	b.open("search")
	b.wait("changes allowed")
	b.fillIn("pay-3001")
	b.wait("account acc-17 does not exist")
	b.check("store-search")
	b.click("Delete the entry …")
	b.wait("as shown here, is deleted; if the entry has changed, nothing is.")
	b.check("store-delete")

	b.open("entries")
	b.click("List")
	b.wait("These are all.")
	b.wait("pay-1008")
	b.check("store-entries")
	b.fillIn("overdue")
	b.wait("1 of them is listed. These are all.")
	b.wait("pay-2002")

	b.look(1280, 800, "dark")
	b.open("failures")
	b.click("Read the failures")
	b.wait("permanent: account … does not exist")
	b.wait(`exhausted: currency "…" is not supported`)
	b.wait("6 FAILED")
	b.check("store-failures")

	b.open("outbox")
	b.click("Read the parked events")
	b.wait("3 parked events.")
	b.check("store-outbox")
	b.eval(`document.querySelector('tbody input').click(); ''`)
	b.click("Requeue the selected ones …")
	b.click("Requeue")
	b.wait("1 event requeued.")
	b.wait("2 parked events.")
	b.click("Requeue all …")
	b.click("Requeue all")
	b.wait("There are none.")

	b.look(1280, 800, "light")
	b.open("letters")
	b.click("Read the dead letters")
	b.wait("8 dead letters.")
	b.check("store-letters")
	b.eval(`document.querySelector('tbody input').click(); ''`)
	b.click("Redrive the selected ones …")
	b.click("Redrive")
	b.wait("1 dead letter redriven.")
	b.wait("7 dead letters.")
	b.click("Redrive all …")
	b.click("Redrive all")
	b.wait("7 dead letters redriven.")
	b.wait("There are none.")

	b.open("reconcile")
	b.wait("Reads the whole store")
	b.fillIn()
	b.wait("overdue\n")
	b.wait("not supported")
	b.look(390, 844, "dark")
	b.check("store-narrow")
}

// A page without --allow-changes has no button that changes something. Script in keys, results, failures,
// letters and events is shown and does not run.
func TestStoreIsReadOnly(t *testing.T) {
	s := newShop(t)
	s.fillScripts()
	b := tab(t)
	b.page = s.console()
	b.look(1280, 800, "light")
	buttons := func(want string) {
		t.Helper()
		if got := b.eval(`[...document.querySelectorAll('main button')].filter(e => e.offsetParent).map(e => e.textContent).join() + document.querySelectorAll('main input[type=checkbox]').length`); got != want+"0" {
			t.Errorf("the buttons are %s, want %s", got, want)
		}
	}
	b.open("search")
	b.wait("read-only")
	b.fillIn("done " + script)
	b.wait("fingerprint")
	buttons("Search")
	b.fillIn("none")
	b.wait("there is no entry for the key")
	for view, read := range map[string]string{"entries": "List", "failures": "Read the failures",
		"letters": "Read the dead letters", "outbox": "Read the parked events", "reconcile": "Reconcile"} {
		b.open(view)
		b.click(read)
		b.wait("window.hit=")
		buttons(read)
		if got := b.eval(`String(window.hit) + document.querySelectorAll('main img, main script').length`); got != "undefined0" {
			t.Errorf("%s: a script of a record was run: %s", view, got)
		}
	}
}
