package console

// Verdict compares the ledger of the example function with the records that it got.
type Verdict struct {
	// Why says why the ledger of this run can't be verified; "" if it can.
	Why string `json:"why"`
	// Sides are the run, and with --compare also that of the same records without idemsk.
	Sides []Side `json:"sides"`
}

// The states of a Side.
const (
	SideDelivering = "delivering" // records are not committed, or in flight: what is missing may follow
	SideExact      = "exact"      // everything is as the records require
	SideWrong      = "wrong"
)

// Side is the ledger of one run.
type Side struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Open      int64  `json:"open"`     // records that are not committed
	Records   int    `json:"records"`  // different records
	Payments  int    `json:"payments"` // to be booked
	Delivered int    `json:"delivered"`
	Kills     int    `json:"kills"`
	// bookings that were repeated after a kill, each explained by the audit
	Repeats  int       `json:"repeats"`
	Sums     []Sum     `json:"sums"`   // by currency
	Off      []Balance `json:"off"`    // the first accounts with another balance than the records require
	OffAll   int       `json:"offAll"` // the number of these accounts
	Problems []string  `json:"problems"`
	// ProblemsAll is the number of problems, of which Problems are the first ones.
	ProblemsAll int `json:"problemsAll"`
}

// Sum is the sum of a currency, in minor units. Off is that of the absolute differences of the accounts.
type Sum struct {
	Currency string `json:"currency"`
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
	Off      int64  `json:"off"`
}

// Balance is the balance of an account, in minor units.
type Balance struct {
	Account  string `json:"account"` // with its currency: "acc-1/EUR"
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
}
