package verify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Difference is an account with a wrong balance, in minor units.
type Difference struct {
	Account  string // with its currency: "acc-1/EUR"
	Expected int64
	Found    int64
}

// differences returns the accounts whose balances differ.
func differences(want, got map[string]int64) []Difference {
	var off []Difference
	for account, balance := range want {
		if got[account] != balance {
			off = append(off, Difference{Account: account, Expected: balance, Found: got[account]})
		}
	}
	for account, balance := range got {
		if _, known := want[account]; !known && balance != 0 {
			off = append(off, Difference{Account: account, Found: balance})
		}
	}
	slices.SortFunc(off, func(a, b Difference) int { return cmp.Compare(a.Account, b.Account) })
	return off
}

// OffBy returns the sums of the differences by currency, in minor units.
func (r *Result) OffBy() map[string]int64 {
	sums := make(map[string]int64)
	for _, d := range r.Off {
		sums[currencyOf(d.Account)] += max(d.Found-d.Expected, d.Expected-d.Found)
	}
	return sums
}

// totals returns the sums of balances by currency.
func totals(balances map[string]int64) map[string]int64 {
	sums := make(map[string]int64)
	for account, balance := range balances {
		sums[currencyOf(account)] += balance
	}
	return sums
}

func currencyOf(account string) string { return account[strings.LastIndexByte(account, '/')+1:] }

// Amounts formats amounts of several currencies: "1,234.56 EUR and 7.00 USD".
func Amounts(amounts map[string]int64) string {
	parts := make([]string, 0, len(amounts))
	for _, currency := range slices.Sorted(maps.Keys(amounts)) {
		parts = append(parts, term.Money(amounts[currency])+" "+currency)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}
