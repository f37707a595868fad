package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// functionVariable makes the test binary a function that prints the data of a customer, and ends in its call.
const functionVariable = "CONSUMER_TEST_FUNCTION"

const customer = "alice@example.com"

func printAndCrash() {
	resp, err := http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/next")
	if err == nil {
		_ = resp.Body.Close()
	}
	fmt.Println("customer", customer)
	os.Exit(1)
}

// What a function prints, the body of a service's error, and what is secret in the URL of a service are neither
// in the log of the program nor in a dead letter.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "us3r" || password != "pa55" || r.FormValue("token") != "t0ken" {
			t.Errorf("the request has the user %s and the URL %s", user, r.URL)
		}
		http.Error(w, "no such customer: "+customer+" at "+r.URL.String(), http.StatusUnprocessableEntity)
	}))
	t.Cleanup(service.Close)
	t.Setenv(functionVariable, "on")
	for name, tc := range map[string]struct {
		args []string
		says string // in the log and in the letter
	}{
		"a function": {[]string{"--function", os.Args[0]}, "Runtime exited with error: exit status 1"},
		"a service": {[]string{"--http", strings.Replace(service.URL, "http://", "http://us3r:pa55@", 1) +
			"/records?token=t0ken"}, "http://" + service.Listener.Addr().String() + " answered 422"},
	} {
		for _, records := range []string{"1", "100"} {
			c := cluster(t, 1)
			produce(t, c.ListenAddrs(), topic, "a")
			var log bytes.Buffer
			runTo(t, c, 1, tc.args, map[string]string{"IDEMSK_MAX_ATTEMPTS": "2", "IDEMSK_CALL_RECORDS": records}, &log)
			for what, text := range map[string]string{"the log": log.String(),
				"the dead letter": letterText(t, deadRecords(t, c, 1))} {
				if !strings.Contains(text, tc.says) {
					t.Errorf("%s: %s does not say %q: %s", name, what, tc.says, text)
				}
				for _, secret := range []string{customer, "us3r", "pa55", "t0ken"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s: %s has %s: %s", name, what, secret, text)
					}
				}
			}
		}
	}
}

// letterText returns all of the only dead letter.
func letterText(t *testing.T, dead []*kgo.Record) string {
	t.Helper()
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
	text := string(dead[0].Value)
	for _, h := range dead[0].Headers {
		text += fmt.Sprintf("\n%s: %s", h.Key, h.Value)
	}
	return text
}
