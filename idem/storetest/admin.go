package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func admin() []test {
	return []test{
		{"Get of an unknown key", func(s *suite) {
			if _, err := s.admin().Get(s.ctx(), "unknown"); !errors.Is(err, store.ErrNotFound) {
				s.Errorf("%v; want ErrNotFound", err)
			}
		}},
		{"Get shows what was claimed", func(s *suite) {
			s.wantEntry(s.get(s.mustClaim().Key), s.get(key))
			if got := s.get(key).Source; got != source {
				s.Errorf("source %q; want %q", got, source)
			}
		}},
		{"List", func(s *suite) { s.list() }},
		{"List stops when its caller does", func(s *suite) {
			for i := range 5 {
				s.mustClaim(withKey(fmt.Sprint("k", i)))
			}
			n := 0
			for _, err := range s.admin().List(s.ctx(), store.ListQuery{}) {
				if n++; err != nil || n == 2 {
					break
				}
			}
			if n != 2 {
				s.Errorf("%d entries were yielded; want 2", n)
			}
		}},
		{"Delete needs the current token", func(s *suite) {
			entry := s.mustClaim()
			before := s.Raw(s.T, key)
			err := s.admin().Delete(s.ctx(), key, entry.Token-1)
			var fenced *store.FencedError
			if !errors.As(err, &fenced) || fenced.Current.Token != entry.Token {
				s.Errorf("%v; want a FencedError that shows token %d", err, entry.Token)
			}
			s.wantUnchanged(key, before)
			if err := s.admin().Delete(s.ctx(), key, entry.Token); err != nil {
				s.Errorf("delete: %v", err)
			}
			if err := s.admin().Delete(s.ctx(), key, entry.Token); !errors.Is(err, store.ErrNotFound) {
				s.Errorf("second delete: %v; want ErrNotFound", err)
			}
			s.mustClaim()
		}},
	}
}

func (s *suite) list() {
	s.do(s.mustClaim(withKey("a#completed")), store.OpComplete)
	s.do(s.mustClaim(withKey("a#failed")), store.OpFail)
	s.mustClaim(withKey("a#overdue"))
	s.do(s.mustClaim(withKey("b#released")), store.OpRelease)
	s.Advance(lease + s.Skew + time.Second)
	middle := s.Now()
	s.Advance(time.Second)
	s.mustClaim(withKey("b#live"))
	for _, tc := range []struct {
		name string
		q    store.ListQuery
		want string
	}{
		{"everything", store.ListQuery{}, "a#completed a#failed a#overdue b#live b#released"},
		{"by status", store.ListQuery{Status: store.StatusStarted}, "a#overdue b#live b#released"},
		{"by time", store.ListQuery{Before: middle}, "a#completed a#failed a#overdue b#released"},
		{"by key", store.ListQuery{KeyHas: "b#"}, "b#live b#released"},
		{"overdue", store.ListQuery{Overdue: true}, "a#overdue b#released"},
		{"several", store.ListQuery{Status: store.StatusStarted, KeyHas: "a#", Overdue: true}, "a#overdue"},
		{"none", store.ListQuery{KeyHas: "c#"}, ""},
	} {
		var keys []string
		for entry, err := range s.admin().List(s.ctx(), tc.q) {
			if err != nil {
				s.Fatalf("%s: %v", tc.name, err)
			}
			s.wantEntry(entry, s.get(entry.Key))
			keys = append(keys, entry.Key)
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != tc.want {
			s.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
	}
}
