package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// oldestVersion is the oldest supported major version of Redis. All versions of Valkey are supported.
const oldestVersion = 7

// The errors of Check, for errors.Is.
var (
	// ErrOldServer means that the server is older than Redis 7. It is store.ErrMisconfigured.
	ErrOldServer = fmt.Errorf("redisstore: %w: the server is too old", store.ErrMisconfigured)
	// ErrReadOnly means that the server is a replica.
	ErrReadOnly = errors.New("redisstore: the server is a read-only replica")
	// ErrEvicts means that the server deletes keys when its memory is full. A task whose key was deleted runs
	// again.
	ErrEvicts = errors.New("redisstore: the server evicts keys")
	// ErrNotDurable means that a crash of the server loses the latest writes. A caller that accepts this can
	// treat it as a warning.
	ErrNotDurable = errors.New("redisstore: the server keeps no append-only file")
)

// checkLife is the lifetime of the test key if Check does not finish.
const checkLife = time.Second

// Check checks the version, role, eviction policy and persistence of every primary. It then runs a test key
// through a claim, a release, a second claim, an extension and a completion, to check the user's permissions.
// It returns all problems with their remedies: the errors above and others. The store is usable if the only
// problem is ErrNotDurable.
func (s *Store) Check(ctx context.Context) error {
	primaries, err := s.primaries(ctx)
	if err != nil {
		return s.explainCheck(ctx, err)
	}
	var errs []error
	for _, p := range primaries {
		info, err := p.Info(ctx).Result()
		if err != nil {
			return s.explainCheck(ctx, err)
		}
		errs = append(errs, judgeServer(parseInfo(info)))
	}
	if found := errors.Join(errs...); errors.Is(found, ErrOldServer) || errors.Is(found, ErrReadOnly) {
		return found // the remaining checks would fail too
	}
	return errors.Join(append(errs, s.tryLife(ctx))...)
}

func (s *Store) explainCheck(ctx context.Context, err error) error {
	return fmt.Errorf("redisstore: check: %w%s", withCause(ctx, classified(err)), hint(ctx, err))
}

// parseInfo returns the fields of INFO by name.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// judgeServer returns the problems of a server, given its INFO.
func judgeServer(info map[string]string) error {
	at := "port " + info["tcp_port"]
	major, _, _ := strings.Cut(info["redis_version"], ".") // Valkey reports it too, from 7 on
	if v, err := strconv.Atoi(major); err != nil || v < oldestVersion {
		return fmt.Errorf("%w: %s has version %q: use Redis %d or later, or Valkey", ErrOldServer, at,
			info["redis_version"], oldestVersion)
	}
	if role := info["role"]; role != "master" {
		return fmt.Errorf("%w: %s is a %s of %s:%s: give the store the primary's address, or a client that follows it",
			ErrReadOnly, at, role, info["master_host"], info["master_port"])
	}
	var errs []error
	if policy := info["maxmemory_policy"]; policy != "noeviction" && info["maxmemory"] != "0" {
		errs = append(errs, fmt.Errorf("%w: %s has maxmemory-policy %s: set it to noeviction, so that a full memory refuses claims instead of "+
			"forgetting keys", ErrEvicts, at, policy))
	}
	if info["aof_enabled"] != "1" {
		errs = append(errs, fmt.Errorf("%w: %s has appendonly no, so that a crash loses keys, whose tasks then run again: set appendonly yes and "+
			"appendfsync always, or accept it", ErrNotDurable, at))
	}
	return errors.Join(errs...)
}

// tryLife runs a test key through all transitions.
func (s *Store) tryLife(ctx context.Context) error {
	req := store.ClaimRequest{Key: "check " + rand.Text(), Source: "check", Lease: checkLife,
		Fingerprint: store.Fingerprint{1}}
	var entry store.Entry
	claim := func() error {
		req.Owner = rand.Text()
		res := s.Claim(ctx, []store.ClaimRequest{req})[0]
		entry = res.Entry
		return res.Err
	}
	settle := func(set store.Settlement) error {
		set.Key, set.Token, set.Owner, set.Retention, set.Lease = req.Key, entry.Token, entry.Owner,
			checkLife, checkLife
		return errors.Join(s.Settle(ctx, []store.Settlement{set})...)
	}
	for _, step := range []func() error{
		claim,
		func() error {
			return settle(store.Settlement{Op: store.OpRelease, Refund: true,
				Failure: &store.Failure{Code: store.CodeError, Message: "check"}})
		},
		claim,
		func() error { return settle(store.Settlement{Op: store.OpExtend}) },
		func() error { return settle(store.Settlement{Op: store.OpComplete, Result: []byte("check")}) },
		func() error { _, err := s.Get(ctx, req.Key); return err },
		func() error { return s.Delete(ctx, req.Key, entry.Token) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return s.tryScan(ctx)
}

// tryScan checks that the user may list keys.
func (s *Store) tryScan(ctx context.Context) error {
	if err := s.client.ScanType(ctx, 0, s.prefix+":{*}", 1, "string").Err(); err != nil {
		return s.explainCheck(ctx, err)
	}
	return nil
}
