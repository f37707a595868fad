package schema_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// slowRegistry is a registry of JSON whose answers take a second, or the delay that is set. Its framing is
// one byte, the schema's ID.
type slowRegistry struct {
	mu      sync.Mutex
	fetched []string
	delay   time.Duration
	err     error
}

func (r *slowRegistry) setDelay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// String implements schema.Registry.
func (*slowRegistry) String() string { return "the slow registry" }

// Unframe implements schema.Registry.
func (*slowRegistry) Unframe(p schema.Part) (schema.Framed, error) {
	return schema.Framed{ID: strconv.Itoa(int(p.Data[0])), Payload: p.Data[1:]}, nil
}

// Fetch implements schema.Registry.
func (r *slowRegistry) Fetch(ctx context.Context, id string) (*schema.Schema, error) {
	r.mu.Lock()
	delay := cmp.Or(r.delay, time.Second)
	r.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetched = append(r.fetched, id)
	return &schema.Schema{ID: id, DataFormat: schema.JSON}, r.err
}

// want checks how many schemas were fetched since the last call.
func (r *slowRegistry) want(t *testing.T, what string, n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fetched) != n {
		t.Errorf("%s: fetched %v; want %d schemas", what, r.fetched, n)
	}
	r.fetched = nil
}

func newSlow(t *testing.T, cfg schema.Config) (*slowRegistry, func(id byte) error) {
	t.Helper()
	r := &slowRegistry{}
	cfg.Registry = r
	d, err := schema.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, func(id byte) error {
		_, err := d.JSON(t.Context(), &kafka.Record{Value: []byte{id, '{', '}'}})
		return err
	}
}

func TestSchemaIsFetchedOnceByConcurrentRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, decode := newSlow(t, schema.Config{})
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if err := decode(1); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		r.want(t, "100 records at once", 1)
		if err := decode(1); err != nil {
			t.Error(err)
		}
		r.want(t, "a later record", 0)
	})
}

func TestNumberOfKeptSchemasIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, decode := newSlow(t, schema.Config{MaxSchemas: 2})
		for _, id := range []byte{1, 2, 1, 2, 3, 2, 3} {
			if err := decode(id); err != nil {
				t.Error(err)
			}
		}
		r.want(t, "three schemas", 3)
		if err := decode(1); err != nil {
			t.Error(err)
		}
		r.want(t, "the one that was removed", 1)
	})
}

// A failure is kept for a short time: a batch of records waits for it once.
func TestFailureIsKeptForAShortTime(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		unavailable bool
	}{"down": {errors.New("no route"), true}, "unknown": {schema.ErrUnknown, false}} {
		synctest.Test(t, func(t *testing.T) {
			r, decode := newSlow(t, schema.Config{RetryAfter: time.Minute})
			r.err = tc.err
			for range 3 {
				if err := decode(1); !errors.Is(err, tc.err) || idem.IsUnavailable(err) != tc.unavailable {
					t.Errorf("%s: %v", name, err)
				}
			}
			r.want(t, name, 1)
			r.mu.Lock()
			r.err = nil
			r.mu.Unlock()
			<-time.After(time.Minute + 1)
			if err := decode(1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			r.want(t, name+", later", 1)
		})
	}
}

// panicking panics at each schema: when it is fetched, or as a format when it is compiled.
type panicking struct {
	slowRegistry
	compiling bool
}

// Fetch implements schema.Registry.
func (r *panicking) Fetch(context.Context, string) (*schema.Schema, error) {
	if r.compiling {
		return &schema.Schema{DataFormat: schema.JSON}, nil
	}
	panic("no client")
}

// DataFormat implements schema.Format.
func (*panicking) DataFormat() string { return schema.JSON }

// Compile implements schema.Format.
func (*panicking) Compile(*schema.Schema) (schema.Type, error) { panic("no type") }

func TestPanicAtASchemaIsAnErrorOfTheRecord(t *testing.T) {
	for compiling, want := range map[bool]string{false: "panic: no client",
		true: "can't be compiled: panic: no type"} {
		p := &panicking{compiling: compiling}
		d, err := schema.New(schema.Config{Registry: p, Formats: []schema.Format{p}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.JSON(t.Context(), &kafka.Record{Value: []byte{1}})
		if err == nil || !strings.Contains(err.Error(), want) || idem.IsUnavailable(err) == compiling ||
			idem.IsPermanent(err) != compiling {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// panickingType is a Format and a Type that panics at each value.
type panickingType struct{}

func (panickingType) DataFormat() string                            { return schema.JSON }
func (p panickingType) Compile(*schema.Schema) (schema.Type, error) { return p, nil }
func (panickingType) Decode(data []byte, _ any) error               { panic(string(data)) }
func (panickingType) FromJSON(data []byte, _ any) error             { panic(string(data)) }
func (panickingType) ToJSON(data []byte) ([]byte, error)            { panic(string(data)) }

// A value at which a library panics is an error of its record, which does not quote it.
func TestPanicAtAValueIsAnErrorOfTheRecord(t *testing.T) {
	d, err := schema.New(schema.Config{Registry: &panicking{compiling: true}, Formats: []schema.Format{panickingType{}}})
	if err != nil {
		t.Fatal(err)
	}
	topic := &kafka.Record{Value: []byte("\x014711")}
	event := &kafka.Record{Value: []byte("4711"), ValueSchema: &kafka.Schema{ID: "1"}}
	_, toJSON := d.JSON(t.Context(), topic)
	for what, err := range map[string]error{
		"JSON": toJSON, "Decode": d.Decode(t.Context(), topic, new(any)),
		"Decode from an event": d.Decode(t.Context(), event, new(any)),
	} {
		if !idem.IsPermanent(err) || !strings.Contains(err.Error(), "panicked (string)") ||
			strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Records of many schemas wait for a silent registry once. What is known is decoded, and later the schemas
// are fetched.
func TestSilentRegistryIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, decode := newSlow(t, schema.Config{Timeout: 2 * time.Second})
		if err := decode(9); err != nil {
			t.Error(err)
		}
		r.setDelay(time.Hour)
		began := time.Now()
		for i := range 12 {
			if err := decode(byte(1 + i%3)); !idem.IsUnavailable(err) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if err := decode(9); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		r.setDelay(time.Second)
		<-time.After(schema.DefaultRetryAfter + 1)
		for id := range byte(3) {
			if err := decode(1 + id); err != nil {
				t.Errorf("later: %v", err)
			}
		}
	})
}
