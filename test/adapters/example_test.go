package adapters_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/test/adapters"
)

// A client that got no answer sends its payment again. It is booked once.
func ExampleIdempotent() {
	engine, err := idem.New(memstore.New(memstore.Config{}), // of one process: use idem/pgstore for several
		idem.Config{Wait: -1, RetryDelay: -1, OutageFailures: -1, MaxResult: 64 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	balance := 0
	book := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		balance += 1250
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, "balance ", balance)
	})
	account := func(r *http.Request) string { user, _, _ := r.BasicAuth(); return user }
	payments := adapters.Idempotent(engine, account, book)

	for _, amount := range []string{"1250", "1250", "9999"} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(amount))
		r.Header.Set("Idempotency-Key", "p-17")
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		fmt.Println(w.Code, strings.TrimSpace(string(text)))
	}
	// Output:
	// 201 balance 1250
	// 201 balance 1250
	// 422 this Idempotency-Key belongs to another request
}
