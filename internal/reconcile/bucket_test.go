package reconcile_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
)

func TestTheNewestExportOfABucket(t *testing.T) {
	var s s3test.Server
	s.PutAt("/exports/bookings/1.csv", []byte("id\nold\n"), now.Add(-time.Hour))
	s.PutAt("/exports/bookings/2.csv", []byte("id\ndone\nghost\n"), now)
	s.PutAt("/exports/bookings/3.done", nil, now.Add(time.Hour))
	s.PutAt("/exports/balances/4.csv", []byte("id\nother\n"), now.Add(time.Hour))
	client := s3test.Client(t, s.Start(t))
	e, err := reconcile.OpenObject(t.Context(), client, "s3://exports/bookings/", "id")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the export", e.Name+" "+e.Written.String(), "s3://exports/bookings/2.csv "+now.String())
	from, to, err := e.Bounds(25*time.Hour, time.Hour, now.Add(25*time.Hour))
	if err != nil || !from.Equal(now.Add(-25*time.Hour)) || !to.Equal(now.Add(-time.Hour)) {
		t.Errorf("the bounds are %v, %v, %v", from, to, err)
	}
	r, err := reconcile.Run(t.Context(), filled(t), e.Rows,
		reconcile.Options{Prefix: "ledger#payments#", From: from, To: to}, now)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "only in the export", keys(r.OnlyInExport, row), "ghost@3")
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := e.Bounds(25*time.Hour, time.Hour, now.Add(26*time.Hour)); err == nil ||
		!strings.Contains(err.Error(),
			"s3://exports/bookings/2.csv was written 26h0m0s ago, and an export covers 25h0m0s") {
		t.Errorf("an old export: %v", err)
	}
}

func TestExportsThatCanNotBeRead(t *testing.T) {
	for _, tc := range []struct{ fault, location, want string }{
		{"AccessDenied", "s3://exports/e.csv", "looking for an export in s3://exports/e.csv: "},
		{"AccessDenied", "s3://exports/e.csv", ": the role needs s3:ListBucket on the bucket, s3:GetObject"},
		{"NoSuchBucket", "s3://exports/e.csv", ": check the bucket's name and the region"},
		{"", "s3://exports/none", "there is no export in s3://exports/none: want an object whose name begins so and ends in .csv or .jsonl"},
	} {
		s := s3test.Server{Fault: tc.fault}
		_, err := reconcile.OpenObject(t.Context(), s3test.Client(t, s.Start(t)), tc.location, "id")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q in it", tc.fault, err, tc.want)
		}
	}
}

// A connection that ends within an export is no end of the export.
func TestExportWhoseTransferBreaks(t *testing.T) {
	var s s3test.Server
	s.Put("/exports/e.csv", []byte("id\ndone\n"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("list-type") {
			s.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("id\ndone\n"))
	}))
	t.Cleanup(server.Close)
	e, err := reconcile.OpenObject(t.Context(), s3test.Client(t, server.URL), "s3://exports/e", "id")
	if err != nil {
		t.Fatal(err)
	}
	_, err = reconcile.Run(t.Context(), memstore.New(memstore.Config{}), e.Rows, reconcile.Options{}, now)
	if err == nil || !strings.Contains(err.Error(), "s3://exports/e.csv: unexpected EOF") {
		t.Errorf("%v; want unexpected EOF, with the export's name", err)
	}
	_ = e.Close()
}
