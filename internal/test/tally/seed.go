package tally

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// seedVariable is the environment variable that gives a test its seed.
const seedVariable = "IDEMSK_TEST_SEED"

// Seed is the source of a test's random choices. It does not determine the scheduling of processes and
// goroutines.
type Seed uint64

// NewSeed returns the seed of IDEMSK_TEST_SEED, or a random one, and logs it.
func NewSeed(t testing.TB) Seed {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // a seed is no secret
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s is %q: want a whole number, as the log of a test has it", seedVariable, given)
		}
	}
	t.Logf("%s=%d gives the same choices again", seedVariable, seed)
	return Seed(seed)
}

// Rand returns a random source for sequential choices, which depends on the seed and the name.
func (s Seed) Rand(name string) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(s), hash(name))) //nolint:gosec // a seed is no secret
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// Faults make a handler fail sometimes.
type Faults struct {
	seed Seed
	name string

	mu    sync.Mutex
	tries map[string]uint64 // by key
}

// Faults returns the faults of a handler. The failing attempts of a key depend on the seed, the handler's
// name and the key, but not on concurrent work.
func (s Seed) Faults(name string) *Faults {
	return &Faults{seed: s, name: name, tries: make(map[string]uint64)}
}

var errFlaw = errors.New("the handler fails after all that it does")

// faultEvery is the number of attempts for each that fails.
const faultEvery = 50

// Fail returns an error in about one call of 50. It is safe for concurrent use.
func (f *Faults) Fail(key string) error {
	f.mu.Lock()
	f.tries[key]++
	try := f.tries[key]
	f.mu.Unlock()
	if f.seed.Rand(f.name+" "+key+" "+strconv.FormatUint(try, 10)).IntN(faultEvery) == 0 {
		return errFlaw
	}
	return nil
}
