package replay

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
)

// newSite makes what one pass works on: two tables and a queue of its own, which the caller removes.
func newSite(ctx context.Context, s *store) (*proof.Site, error) {
	suffix := strings.ToLower(rand.Text()[:8])
	at := &proof.Site{Dynamo: s.dynamo, SQS: s.sqs, Table: "idemsk-replay-" + suffix, Ledger: "idemsk-replay-ledger-" + suffix}
	return at, at.Create(ctx, "idemsk-replay-letters-"+suffix)
}
