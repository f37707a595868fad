package redisstore

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// encode returns the value of an entry, as the scripts write it.
func encode(entry *store.Entry) []byte {
	var flags byte
	var optional, end []byte
	if entry.CreatedAt.UnixMilli() != entry.Token {
		flags, optional = flags|flagCreated, appendTime(nil, entry.CreatedAt.UnixMilli())
	}
	optional = appendSized(optional, entry.Owner)
	if !entry.Fingerprint.IsZero() {
		flags, optional = flags|flagFingerprint, append(optional, entry.Fingerprint[:]...)
	}
	optional = appendText(optional, entry.Source)
	if f := entry.Failure; f != nil {
		flags, end = flags|flagFailure, appendText(appendSized(appendTime(end, f.At.UnixMilli()), f.Code), f.Message)
	}
	if entry.ResultOmitted != 0 {
		flags, end = flags|flagOmitted, binary.BigEndian.AppendUint32(end, uint32(int32(entry.ResultOmitted)))
	}
	kind, lease := kindFailed, []byte(nil)
	switch {
	case entry.Released():
		kind, lease = kindReleased, appendTime(nil, entry.RetryAt.UnixMilli())
	case entry.Status == store.StatusStarted:
		kind, lease = kindStarted, appendTime(nil, entry.LeaseUntil.UnixMilli())
	case entry.Status == store.StatusCompleted:
		kind = kindCompleted
	}
	b := appendTime([]byte{kind, flags}, entry.Token)
	b = append(b, appendTime(nil, entry.Expiry.Unix())[1:]...)
	b = binary.BigEndian.AppendUint16(appendTime(b, entry.UpdatedAt.UnixMilli()), uint16(entry.Attempts))
	return append(append(append(append(b, lease...), optional...), end...), entry.Result...)
}

// FuzzValue reads any value. What is read as an entry is the entry again from the value that is written for it.
func FuzzValue(f *testing.F) {
	for _, entry := range []store.Entry{
		{Status: store.StatusStarted, Owner: "o", Source: "t-0@1"},
		{Status: store.StatusStarted, Token: 7, Failure: &store.Failure{Code: "error", Message: "boom"}},
		{Status: store.StatusCompleted, Fingerprint: store.Fingerprint{1}, Result: []byte("result")},
		{Status: store.StatusCompleted, ResultOmitted: store.ResultUnencodable},
		{Status: store.StatusFailed, Attempts: 5},
	} {
		value := encode(&entry)
		f.Add(string(value))
		f.Add(string(value[:len(value)-1]))
	}
	f.Add("")
	f.Add("another program's value, which is longer than any entry has to be")
	f.Fuzz(func(t *testing.T, value string) {
		first, err := decode("k", value)
		if err != nil {
			if !errors.Is(err, store.ErrForeignEntry) {
				t.Fatal(err)
			}
			return
		}
		second, err := decode("k", string(encode(&first)))
		if d := storetest.Diff(second, first); err != nil || d != "" {
			t.Fatalf("%v: %s", err, d)
		}
	})
}
