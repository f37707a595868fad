package dynamostore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

func ms(n int64) time.Time { return time.UnixMilli(n) }

// goldenEntries are the entries of testdata/items: with every attribute, and without every optional
// attribute.
func goldenEntries() map[string]store.Entry {
	base := store.Entry{
		Key: "payments#p-1", Status: store.StatusStarted, Token: 1790000000123, Owner: "owner-1",
		LeaseUntil: ms(1790000030123),
		Attempts:   1, Fingerprint: store.FingerprintOf([]byte("value")), Source: "payments-3@17",
		CreatedAt: ms(1790000000123), UpdatedAt: ms(1790000000123), Expiry: time.Unix(1790604831, 0),
	}
	variant := func(change func(r *store.Entry)) store.Entry {
		r := base
		change(&r)
		return r
	}
	failure := &store.Failure{Code: store.CodeError, Message: "the bank said: \"no\"", At: ms(1790000001123)}
	return map[string]store.Entry{
		"v1-started": base,
		"v1-started-bare": variant(func(r *store.Entry) {
			r.Fingerprint, r.Source = store.Fingerprint{}, ""
		}),
		"v1-released": variant(func(r *store.Entry) {
			r.RetryAt, r.Failure, r.Attempts, r.UpdatedAt = ms(1790000011123), failure, 3, ms(1790000001123)
		}),
		"v1-completed": variant(func(r *store.Entry) {
			r.Status, r.Result, r.Token = store.StatusCompleted, []byte(`{"balance":1250}`), 1790000000124
		}),
		"v1-completed-omitted": variant(func(r *store.Entry) {
			r.Status, r.ResultOmitted = store.StatusCompleted, 70000
		}),
		"v1-completed-unencodable": variant(func(r *store.Entry) {
			r.Status, r.ResultOmitted = store.StatusCompleted, store.ResultUnencodable
		}),
		"v1-failed": variant(func(r *store.Entry) {
			r.Status, r.Failure, r.Attempts = store.StatusFailed, failure, 5
		}),
	}
}

// TestGoldenItems checks the format of the first release. Every later version reads these files and writes
// the same items. The files never change; new attributes get new files.
func TestGoldenItems(t *testing.T) {
	for name, want := range goldenEntries() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "items", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := decode(fromJSON(t, text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := storetest.Diff(got, want); diff != "" {
				t.Errorf("read (got, want): %s", diff)
			}
			av := encode(&want)
			if written := toJSON(t, av); strings.TrimSpace(written) != strings.TrimSpace(string(text)) {
				t.Errorf("written:\n%s\nwant:\n%s", written, text)
			}
		})
	}
}

func TestEveryGoldenFileIsRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "items", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	records := goldenEntries()
	for _, f := range files {
		if _, ok := records[strings.TrimSuffix(filepath.Base(f), ".json")]; !ok {
			t.Errorf("no test reads %s", f)
		}
	}
	if len(files) != len(records) {
		t.Errorf("%d files; want %d", len(files), len(records))
	}
}

func TestAttributesOfOtherVersionsAreIgnored(t *testing.T) {
	entry := goldenEntries()["v1-started"]
	av := encode(&entry)
	av["addedByALaterVersion"] = &types.AttributeValueMemberBOOL{Value: true}
	got, err := decode(av)
	if diff := storetest.Diff(got, entry); err != nil || diff != "" {
		t.Errorf("%v; (got, want): %s", err, diff)
	}
}

func TestForeignItemsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(av map[string]types.AttributeValue)
		want   string
	}{
		"an unknown status": {func(av map[string]types.AttributeValue) {
			av[attrStatus] = &types.AttributeValueMemberS{Value: "INPROGRESS"}
		}, `unknown status "INPROGRESS"`},
		"a version that is text": {func(av map[string]types.AttributeValue) {
			av[attrVersion] = &types.AttributeValueMemberS{Value: "1"}
		}, "not written by idemsk"},
		"a fingerprint of another length": {func(av map[string]types.AttributeValue) {
			av[attrFingerprint] = &types.AttributeValueMemberB{Value: []byte{1, 2, 3}}
		}, "fingerprint has 3 bytes"},
		"a fingerprint that is too long": {func(av map[string]types.AttributeValue) {
			av[attrFingerprint] = &types.AttributeValueMemberB{Value: make([]byte, 33)}
		}, "fingerprint has 33 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			entry := goldenEntries()["v1-started"]
			av := encode(&entry)
			tc.change(av)
			if _, err := decode(av); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want an error with %q", err, tc.want)
			}
		})
	}
}

// TestTagsAreTheConstants compares the struct tags with the constants.
func TestTagsAreTheConstants(t *testing.T) {
	want := []string{
		AttrKey, attrStatus, attrVersion, attrOwner, attrLeaseUntil, attrRetryAt, attrAttempts,
		attrFingerprint, attrResult,
		attrResultOmitted, attrFailure, attrSource, attrCreatedAt, attrUpdatedAt, AttrExpiry,
	}
	typ := reflect.TypeFor[item]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("dynamodbav"), ",")
		if i >= len(want) || name != want[i] {
			t.Errorf("field %s is stored as %q, which is not the constant for it", typ.Field(i).Name, name)
		}
	}
	if typ.NumField() != len(want) {
		t.Errorf("%d fields for %d constants", typ.NumField(), len(want))
	}
}

// A key that changed in any way after it was read is not taken (rule 7). Each condition alone would mostly
// do, so no history shows that one is missing.
func TestTakeIsConditionalOnAllThatWasRead(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_123)
	seen := store.Entry{Key: "k", Status: store.StatusStarted, Token: 7, Owner: "o", LeaseUntil: at}
	want := []term{
		{attrStatus, equal, text("STARTED")}, {attrVersion, equal, number(7)}, {attrOwner, equal, text("o")},
		{attrLeaseUntil, equal, number(at.UnixMilli())}, {attr: attrRetryAt, op: absent},
	}
	if got := takeChange(&seen, &seen).conditions; !reflect.DeepEqual(got, want) {
		t.Errorf("held: %v; want %v", got, want)
	}
	seen.RetryAt = at.Add(time.Second)
	want[4] = term{attrRetryAt, equal, number(at.UnixMilli() + 1000)}
	if got := takeChange(&seen, &seen).conditions; !reflect.DeepEqual(got, want) {
		t.Errorf("released: %v; want %v", got, want)
	}
}

// DynamoDB's JSON: {"name": {"S": "text"}}, numbers as text, bytes in base64.

func toJSON(t *testing.T, av map[string]types.AttributeValue) string {
	t.Helper()
	text, err := json.MarshalIndent(jsonMap(t, av), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func jsonMap(t *testing.T, av map[string]types.AttributeValue) map[string]any {
	t.Helper()
	out := make(map[string]any, len(av))
	for name, v := range av {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			out[name] = map[string]string{"S": v.Value}
		case *types.AttributeValueMemberN:
			out[name] = map[string]string{"N": v.Value}
		case *types.AttributeValueMemberB:
			out[name] = map[string][]byte{"B": v.Value}
		case *types.AttributeValueMemberM:
			out[name] = map[string]any{"M": jsonMap(t, v.Value)}
		default:
			t.Fatalf("%s is a %T, which the format does not have", name, v)
		}
	}
	return out
}

func fromJSON(t *testing.T, text []byte) map[string]types.AttributeValue {
	t.Helper()
	var in map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]types.AttributeValue, len(in))
	for name, typed := range in {
		for typ, v := range typed {
			var s string
			if typ != "M" {
				if err := json.Unmarshal(v, &s); err != nil {
					t.Fatal(err)
				}
			}
			switch typ {
			case "S":
				out[name] = &types.AttributeValueMemberS{Value: s}
			case "N":
				out[name] = &types.AttributeValueMemberN{Value: s}
			case "B":
				b, err := base64.StdEncoding.DecodeString(s)
				if err != nil {
					t.Fatal(err)
				}
				out[name] = &types.AttributeValueMemberB{Value: b}
			case "M":
				out[name] = &types.AttributeValueMemberM{Value: fromJSON(t, v)}
			default:
				t.Fatalf("%s is of type %s, which the format does not have", name, typ)
			}
		}
	}
	return out
}

// FuzzItem reads an item with any values. What is read as an entry is written and read the same again.
func FuzzItem(f *testing.F) {
	f.Add("STARTED", "7", "o", "1790000000123", "", "1", []byte(nil), []byte(nil), "t-0@1", "1790000000")
	f.Add("FAILED", "9223372036854775807", "", "-1", "5", "0", make([]byte, 32), []byte("result"), "", "0")
	f.Add("STARTED", "1e3", "", "9223372036854775807", "1.5", " 1", []byte("short"), []byte{}, "",
		"-9223372036854775808")
	f.Fuzz(func(t *testing.T, status, version, owner, lease, retry, attempts string, fingerprint,
		result []byte, source, expiry string) {
		av := map[string]types.AttributeValue{
			AttrKey: text("k"), attrStatus: text(status), attrOwner: text(owner), attrSource: text(source),
			attrFingerprint: binary(fingerprint), attrResult: binary(result),
		}
		for name, n := range map[string]string{attrVersion: version, attrLeaseUntil: lease,
			attrRetryAt: retry, attrAttempts: attempts, AttrExpiry: expiry} {
			if n != "" {
				av[name] = &types.AttributeValueMemberN{Value: n}
			}
		}
		first, err := decode(av)
		if err != nil {
			if !errors.Is(err, store.ErrForeignEntry) {
				t.Fatal(err)
			}
			return
		}
		second, err := decode(encode(&first))
		if d := storetest.Diff(second, first); err != nil || d != "" {
			t.Fatalf("%v: %s", err, d)
		}
	})
}
