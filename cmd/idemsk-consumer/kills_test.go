//go:build rest

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/kafkatest"
)

// Functions and web services in other languages book each payment of a topic on Apache Kafka, while their
// processes and the program are killed. A payment that is booked again was with a process that was killed, or
// whose program was, or its completion could not be stored in time.
func TestEachPaymentIsBookedWhateverIsKilled(t *testing.T) {
	installed := output(t, "../../scripts/runtimes.sh", "java", "web")
	testdata, err := filepath.Abs("testdata") // Python has it in its path
	if err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	output(t, "javac", "-d", classes, filepath.Join(testdata, "Payments.java"))
	broker := testkit.Run(t, serverproc.StartScript, serverproc.Kafka).Addr()
	for name, tc := range map[string]struct {
		function, service []string
		processes         int // of the function; 0 means 2
	}{
		"a function in Python": {function: []string{filepath.Join(installed, "python/bin/python"), "-m",
			"awslambdaric", "payments.handler"}},
		"a function in Node.js": {function: []string{"node", filepath.Join(installed,
			"node/node_modules/aws-lambda-ric/bin/index.mjs"), filepath.Join(testdata, "payments.handler")}},
		"a function in Java": {function: []string{"java", "-cp", classes + ":" + filepath.Join(installed,
			"java/*"), "com.amazonaws.services.lambda.runtime.api.client.AWSLambda", "Payments::handler"},
			processes: 1}, // several write the same file of a native library in /tmp
		"a web service with FastAPI": {service: []string{filepath.Join(installed, "web/bin/python"),
			filepath.Join(testdata, "web.py")}},
		"a web service with Express": {service: []string{"node", filepath.Join(testdata, "web.js")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, broker, installed, testkit.Size(t, 2000, 10_000))
			if tc.service != nil {
				s.serve(tc.service)
			} else {
				s.args = []string{"--function", strings.Join(tc.function, " "), "--calls",
					fmt.Sprint(cmp.Or(tc.processes, 2))}
			}
			s.start()
			kills := testkit.Size(t, 8, 30)
			for i := range kills {
				s.await((i + 1) * s.payments / (kills + 1))
				if i%2 == 0 {
					s.killHandler()
				} else {
					s.killProgram()
				}
			}
			s.finish()
			s.check()
		})
	}
}

// output runs a program and returns what it prints.
func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// scene is the program with its topic, its DynamoDB and its handler.
type scene struct {
	*testing.T
	admin    *kadm.Client
	name     string // of the topic and the group
	payments int
	args     []string
	env      []string // of the program, and of a service
	bookings string   // a file

	program *subprocess.Process
	service *subprocess.Process // nil: a function
	command []string            // of the service
	kills   []kill

	mu      sync.Mutex
	unknown map[string]bool // the payments whose completion had no answer in time, as the program says
}

// kill is the end of a handler's process, or of the program: parent.
type kill struct {
	process, parent int
	at              time.Time
}

// booking is a line that a handler writes.
type booking struct {
	Payment         string
	Process, Parent int
	Began           float64
}

func newScene(t *testing.T, broker, installed string, payments int) *scene {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	_, name, _ := strings.Cut(t.Name(), "/")
	s := &scene{T: t, admin: kadm.NewClient(client), name: name, payments: payments,
		bookings: filepath.Join(t.TempDir(), "bookings"), unknown: make(map[string]bool)}
	var keys []string
	for i := range payments {
		keys = append(keys, fmt.Sprint("payment-", i))
	}
	kafkatest.CreateTopic(t, broker, s.name, 4, nil)
	produce(t, []string{broker}, s.name, append(keys, keys[:payments/5]...)...)
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{Latency: 5 * time.Millisecond})
	if err := dynamostore.CreateTable(t.Context(), dynamodb.NewFromConfig(awstest.Config(t, db.URL())),
		dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		programVariable + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"GOCOVERDIR=" + t.TempDir(), "BOOKINGS=" + s.bookings,
		"PYTHONPATH=" + testdata, "PYTHONDONTWRITEBYTECODE=1", "LAMBDA_TASK_ROOT=" + testdata,
		"NODE_PATH=" + filepath.Join(installed, "web/node_modules"),
		"IDEMSK_KAFKA_BROKERS=" + broker, "IDEMSK_KAFKA_TOPICS=" + s.name, "IDEMSK_KAFKA_GROUP=" + s.name,
		"IDEMSK_KAFKA_INSTANCE_ID=one", // a restart has its partitions at once
		"IDEMSK_COMMIT_INTERVAL=100ms", "IDEMSK_KEY=key", "IDEMSK_LEASE=3s", "IDEMSK_MAX_CLOCK_SKEW=100ms",
		"IDEMSK_RETRY_DELAY=0s",
		"AWS_ENDPOINT_URL_DYNAMODB=" + db.URL(), "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test",
	}
	t.Cleanup(func() { end(s.program); end(s.service) })
	return s
}

// end kills a process, if there is one, and waits for its end.
func end(p *subprocess.Process) {
	if p != nil {
		p.Signal(syscall.SIGKILL)
		<-p.Ended()
	}
}

// serve runs a web service.
func (s *scene) serve(command []string) {
	s.Helper()
	port, err := serverproc.FreePort(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.command = append(slices.Clone(command), fmt.Sprint(port))
	s.args = []string{"--http", fmt.Sprintf("http://127.0.0.1:%d/records", port), "--calls", "2"}
	s.service = s.run(s.command)
}

func (s *scene) start() {
	s.Helper()
	program, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	s.program = s.run(append([]string{program}, s.args...))
}

func (s *scene) run(command []string) *subprocess.Process {
	s.Helper()
	p, err := subprocess.Start(command, s.env, s.line)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// line takes a line that a process prints.
func (s *scene) line(line []byte) {
	fmt.Fprintf(s.Output(), "%s\n", line)
	var said struct{ Outcome, Key string }
	if json.Unmarshal(line, &said) == nil && said.Outcome == idem.CompletionFailed.String() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unknown[said.Key[strings.LastIndex(said.Key, "#")+1:]] = true
	}
}

// read returns the bookings until now.
func (s *scene) read() (all []booking) {
	s.Helper()
	file, err := os.ReadFile(s.bookings)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var b booking
		if !strings.HasSuffix(line, "\n") { // it is being written
			break
		}
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			s.Fatalf("line %d: %v", len(all)+1, err)
		}
		all = append(all, b)
	}
	return all
}

// ended reports whether the program has ended by itself.
func (s *scene) ended() bool {
	select {
	case <-s.program.Ended():
		return true
	default:
		return false
	}
}

// await waits until there are n bookings.
func (s *scene) await(n int) {
	s.Helper()
	for began := time.Now(); len(s.read()) < n; <-time.After(5 * time.Millisecond) {
		if s.ended() || time.Since(began) > 2*time.Minute {
			s.Fatalf("%d bookings, want %d", len(s.read()), n)
		}
	}
}

// killHandler kills the process that made a late booking.
func (s *scene) killHandler() {
	all := s.read()
	process := all[len(all)-1-rand.N(min(10, len(all)))].Process
	if s.service != nil {
		process = s.service.PID()
	}
	s.kills = append(s.kills, kill{process: process, at: time.Now()})
	_ = syscall.Kill(process, syscall.SIGKILL)
	if s.service != nil {
		<-s.service.Ended()
		s.service = s.run(s.command)
	}
}

func (s *scene) killProgram() {
	s.kills = append(s.kills, kill{parent: s.program.PID(), at: time.Now()})
	end(s.program)
	s.start()
}

// finish waits until everything is committed, and drains the program.
func (s *scene) finish() {
	s.Helper()
	want := s.payments + s.payments/5
	for began := time.Now(); s.committed() < want; <-time.After(50 * time.Millisecond) {
		if s.ended() || time.Since(began) > 2*time.Minute {
			s.Fatalf("%d records are committed, want %d", s.committed(), want)
		}
	}
	s.program.Signal(syscall.SIGTERM)
	<-s.program.Ended()
	if status, ok := s.program.Status(); !ok {
		s.Errorf("the program ended with %s", status)
	}
}

// committed returns how many records are committed.
func (s *scene) committed() (n int) {
	s.Helper()
	offsets, err := s.admin.FetchOffsets(s.Context(), s.name)
	if err != nil {
		return 0 // the broker looks for the coordinator, perhaps
	}
	offsets.Each(func(o kadm.OffsetResponse) { n += int(o.At) })
	return n
}

// check compares the bookings with the payments and the kills.
func (s *scene) check() {
	s.Helper()
	byPayment := make(map[string][]booking)
	for _, b := range s.read() {
		byPayment[b.Payment] = append(byPayment[b.Payment], b)
	}
	if len(byPayment) != s.payments {
		s.Errorf("%d payments were booked, want %d", len(byPayment), s.payments)
	}
	doubles, repeated := 0, make([]int, len(s.kills))
	for payment, all := range byPayment {
		for _, b := range all[:len(all)-1] {
			doubles++
			if s.unknown[payment] { // the store did not answer in time, on a busy machine
				continue
			}
			i := slices.IndexFunc(s.kills, func(k kill) bool { return s.explains(k, &b) })
			if i < 0 {
				s.Errorf("%s was booked %d times, and no kill explains %+v", payment, len(all), b)
				continue
			}
			repeated[i]++
		}
	}
	const window = 256 // IDEMSK_COMMIT_WINDOW
	if s.service == nil && slices.Max(repeated) > window {
		s.Errorf("the kills repeat %d bookings; want at most %d each", repeated, window)
	}
	s.Logf("%d payments, %d kills, %d doubles, each with its kill or one of %d completions without an answer",
		len(byPayment), len(s.kills), doubles, len(s.unknown))
}

// explains reports whether a booking is repeated because of a kill: its process was killed, or its program. A
// web service is no child of the program: it had the call when the program was killed, and went on with it.
func (s *scene) explains(k kill, b *booking) bool {
	if s.service == nil || k.process != 0 {
		return k.process == b.Process || k.parent == b.Parent
	}
	const before, after = 10 * time.Second, 3 * time.Second // on a busy machine; after: the lease
	began := time.UnixMicro(int64(b.Began * 1e6))
	return k.at.Sub(began) < before && began.Sub(k.at) < after
}
