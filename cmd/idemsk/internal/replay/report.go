package replay

import (
	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
)

// Report is what came of a run.
type Report struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems,omitempty"` // why not
	Proof    string   `json:"proof"`              // what it shows, in a sentence

	Seed       uint64  `json:"seed"`
	Function   string  `json:"function"`
	Store      string  `json:"store"`
	Files      int     `json:"files"`
	Records    int     `json:"records"` // of the stream
	Partitions int     `json:"partitions"`
	BatchSize  int     `json:"batchSize"`
	Duplicates float64 `json:"duplicates"`
	Batching   string  `json:"batching"` // the function's IDEMSK_BATCHING, on which its requests depend

	Payments int              `json:"payments"`       // to be booked
	Places   int              `json:"distinctPlaces"` // different records, by topic-partition@offset
	Expected map[string]int64 `json:"expectedLedger"` // by currency, in minor units
	With     Pass             `json:"withIdemsk"`
	Without  *Pass            `json:"withoutIdemsk,omitempty"`
}

// Pass is what came of one play of everything.
type Pass struct {
	Invocations int `json:"invocations"`
	Delivered   int `json:"delivered"`   // records, each time they were delivered
	Redelivered int `json:"redelivered"` // of those, in batches that had been settled before

	// Outcomes are what the function itself counted.
	Outcomes metrics.Outcomes `json:"outcomes"`
	// ExecutedUnreported are records that were executed by processes which ended before they could say so.
	ExecutedUnreported int `json:"executedUnreported"`

	ColdStarts int      `json:"coldStarts"`
	Killed     int      `json:"killed"`            // processes, before an effect
	Crashes    int      `json:"crashes"`           // processes that ended by themselves
	Torn       int      `json:"torn,omitempty"`    // effects without a completion when a process ended by itself
	GivenUp    []string `json:"givenUp,omitempty"` // batches that did not come to an end
	Lost       int      `json:"lost"`              // records that did not end as they must

	StreamSeconds        float64        `json:"streamSeconds"`
	RecordsPerSecond     float64        `json:"recordsPerSecond"` // delivered, in the stream
	Requests             map[string]int `json:"requests"`         // by table and operation
	RequestsPerFresh     float64        `json:"requestsPerFresh"` // on the table of keys
	RequestsPerDuplicate float64        `json:"requestsPerDuplicate"`

	Ledger      map[string]int64   `json:"ledger"` // by currency, in minor units
	Off         []proof.Difference `json:"off,omitempty"`
	DeadLetters []DeadLetter       `json:"deadLetters,omitempty"`
}

// DeadLetter is what a dead letter says.
type DeadLetter struct {
	Source   string `json:"source"`
	Key      string `json:"idempotencyKey"`
	Attempts int    `json:"attempts"`
	Code     string `json:"code"`
	Cause    string `json:"cause"`
}

// executed is how many times records had their effect.
func (p *Pass) executed() int {
	return p.Outcomes.Executed + p.Outcomes.Unprotected + p.Outcomes.FailedOpen + p.ExecutedUnreported
}
