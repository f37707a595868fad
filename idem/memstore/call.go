package memstore

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// inCall reports whether a completion commits with those of other keys.
func inCall(set *store.Settlement) bool {
	tx, ok := set.Effect.(*Tx)
	return ok && tx.call
}

// errOthers means that an owner holds its key, but another key of its call was taken.
var errOthers = errors.New("nothing of the call was committed: another owner has taken one of the keys")

// callErrors are the errors of completions that commit together, by effect and key.
type callErrors map[store.Effect]map[string]error

// of returns the error of one completion. It settles the whole call when it gets the first one. The caller
// holds the store's lock.
func (c *callErrors) of(s *Store, ss []store.Settlement, i int, now time.Time) error {
	errs, ok := (*c)[ss[i].Effect]
	if !ok {
		var call []*store.Settlement
		for n := range ss {
			if ss[n].Effect == ss[i].Effect {
				call = append(call, &ss[n])
			}
		}
		errs = s.settleCall(call, now)
		if *c == nil {
			*c = make(callErrors)
		}
		(*c)[ss[i].Effect] = errs
	}
	return errs[ss[i].Key]
}

// settleCall settles completions that commit together, or none of them, and returns their errors.
func (s *Store) settleCall(call []*store.Settlement, now time.Time) map[string]error {
	errs := make(map[string]error)
	var left []*store.Settlement
	for _, set := range call {
		switch applied, err := s.held(set, now); {
		case err != nil:
			errs[set.Key] = err
		case !applied:
			left = append(left, set)
		}
	}
	var refused error = &store.RejectedError{Err: errOthers}
	if len(errs) == 0 && len(left) > 0 {
		refused = commit(call[0].Effect)
	}
	for _, set := range left {
		if refused != nil {
			errs[set.Key] = refused
			continue
		}
		s.apply(set, now)
	}
	return errs
}
