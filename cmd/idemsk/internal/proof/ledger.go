package proof

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Difference is an account that does not have what it must have, in minor units.
type Difference struct {
	Account  string `json:"account"` // with its currency: "acc-1/EUR"
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
}

// Differences are the accounts that do not have what they must have.
func Differences(want, got map[string]int64) []Difference {
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

// Off adds up how far accounts are off, whichever way, by currency.
func Off(differences []Difference) map[string]int64 {
	sums := make(map[string]int64)
	for _, d := range differences {
		sums[currencyOf(d.Account)] += max(d.Found-d.Expected, d.Expected-d.Found)
	}
	return sums
}

// Totals adds up accounts by currency.
func Totals(balances map[string]int64) map[string]int64 {
	sums := make(map[string]int64)
	for account, balance := range balances {
		sums[currencyOf(account)] += balance
	}
	return sums
}

func currencyOf(account string) string { return account[strings.LastIndexByte(account, '/')+1:] }

// Amounts writes amounts of several currencies: "1,234.56 EUR and 7.00 USD".
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
