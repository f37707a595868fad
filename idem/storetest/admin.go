package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
)

func admin() []test {
	return []test{
		{"Get of an unknown key", func(s *suite) {
			if _, err := s.admin().Get(s.ctx(), "unknown"); !errors.Is(err, idem.ErrNotFound) {
				s.Errorf("%v; want ErrNotFound", err)
			}
		}},
		{"Get shows what was claimed", func(s *suite) {
			s.wantRecord(s.get(s.mustClaim().Key), s.get(key))
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
			for _, err := range s.admin().List(s.ctx(), idem.ListQuery{}) {
				if n++; err != nil || n == 2 {
					break
				}
			}
			if n != 2 {
				s.Errorf("%d records were yielded; want 2", n)
			}
		}},
		{"Delete wants the version that was seen", func(s *suite) {
			rec := s.mustClaim()
			before := s.Raw(s.T, key)
			err := s.admin().Delete(s.ctx(), key, rec.Version-1)
			var fenced *idem.FencedError
			if !errors.As(err, &fenced) || fenced.Current.Version != rec.Version {
				s.Errorf("%v; want a FencedError that shows version %d", err, rec.Version)
			}
			s.wantUnchanged(key, before)
			if err := s.admin().Delete(s.ctx(), key, rec.Version); err != nil {
				s.Errorf("delete: %v", err)
			}
			if err := s.admin().Delete(s.ctx(), key, rec.Version); !errors.Is(err, idem.ErrNotFound) {
				s.Errorf("second delete: %v; want ErrNotFound", err)
			}
			s.mustClaim()
		}},
	}
}

func (s *suite) list() {
	s.do(s.mustClaim(withKey("a#completed")), idem.OpComplete)
	s.do(s.mustClaim(withKey("a#failed")), idem.OpFail)
	s.mustClaim(withKey("a#overdue"))
	s.do(s.mustClaim(withKey("b#released")), idem.OpRelease)
	s.Advance(lease + s.Skew + time.Second)
	middle := s.Now()
	s.Advance(time.Second)
	s.mustClaim(withKey("b#live"))
	for _, tc := range []struct {
		name string
		q    idem.ListQuery
		want string
	}{
		{"everything", idem.ListQuery{}, "a#completed a#failed a#overdue b#live b#released"},
		{"by status", idem.ListQuery{Status: idem.StatusStarted}, "a#overdue b#live b#released"},
		{"by time", idem.ListQuery{Before: middle}, "a#completed a#failed a#overdue b#released"},
		{"by key", idem.ListQuery{KeyHas: "b#"}, "b#live b#released"},
		{"overdue", idem.ListQuery{Overdue: true}, "a#overdue b#released"},
		{"several", idem.ListQuery{Status: idem.StatusStarted, KeyHas: "a#", Overdue: true}, "a#overdue"},
		{"none", idem.ListQuery{KeyHas: "c#"}, ""},
	} {
		var keys []string
		for rec, err := range s.admin().List(s.ctx(), tc.q) {
			if err != nil {
				s.Fatalf("%s: %v", tc.name, err)
			}
			s.wantRecord(rec, s.get(rec.Key))
			keys = append(keys, rec.Key)
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != tc.want {
			s.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
	}
}
