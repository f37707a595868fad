package simulation_test

const (
	rulesFile      = "idem/store/rules.go"
	rangeRulesFile = "idem/store/range.go"
	expressionFile = "idem/dynamostore/expression.go"
	dynamoFile     = "idem/dynamostore/dynamostore.go"
	dynamoBatch    = "idem/dynamostore/batch.go"
	dynamoRange    = "idem/dynamostore/range.go"
	txSettleFile   = "idem/dynamostore/txsettle.go"
	rangeFile      = "idem/range.go"
	rangeLease     = "idem/rangelease.go"
	rangeStream    = "idem/rangestream.go"
)

const judges = "idem/store TestJudgeDecidesAsTheModelDoes"

// defectsOfRules are those of what a key's entry means: rules 1 to 10.
var defectsOfRules = []defect{
	{
		name:   "COMPLETED is not final",
		undoes: "rule 4",
		shows:  "a final entry changes",
		test:   judges,
		changes: []replacement{{
			rulesFile,
			"return seen.Status != StatusStarted && now.Before",
			"return seen.Status == StatusFailed && now.Before",
		}},
	}, {
		name:   "FAILED is not final",
		undoes: "rule 4",
		shows:  "a final entry changes",
		test:   judges,
		changes: []replacement{{
			rulesFile,
			"return seen.Status != StatusStarted && now.Before",
			"return seen.Status == StatusCompleted && now.Before",
		}},
	}, {
		name:   "a take-over does not raise the token",
		undoes: "rule 2",
		shows:  "a new owner with the token of the one before",
		test:   "idem/store TestClaimCreatesOrContinuesAnEntry",
		changes: []replacement{{rulesFile, "entry.Token, entry.Attempts = seen.Token+1,",
			"entry.Token, entry.Attempts = seen.Token,"}},
	}, {
		name:    "a take-over forgets the attempts",
		undoes:  "rule 8",
		shows:   "the attempts do not grow by one",
		test:    "idem/store TestClaimCreatesOrContinuesAnEntry",
		changes: []replacement{{rulesFile, "return seen.Attempts + 1", "return 1"}},
	}, {
		name:    "the clock skew is not added to a lease",
		undoes:  "rule 7",
		shows:   "a key is taken before its lease is over at the clock of the claimer",
		test:    judges,
		changes: []replacement{{rulesFile, "seen.LeaseUntil.Add(skew).Sub(now)", "seen.LeaseUntil.Sub(now)"}},
	}, {
		name:   "fingerprints are not compared",
		undoes: "rule 6",
		shows:  "a record with another value has no dead letter",
		test:   judges,
		changes: []replacement{{rulesFile, "return !seen.Fingerprint.Matches(req.Fingerprint)",
			"return false"}},
	}, {
		name:   "a redrive opens a key that FAILED again after its dead letter",
		undoes: "rule 10",
		shows:  "an old letter that an operator redrives runs the payment again",
		test:   judges,
		changes: []replacement{{rulesFile, "seen.Token == req.RedriveToken",
			"seen.Token >= req.RedriveToken && req.RedriveToken > 0"}},
	}, {
		name:   "a redrive opens a key with a token that it never had",
		undoes: "rule 10",
		shows:  "a record with a large token in its header runs the payment again",
		test:   judges,
		changes: []replacement{{rulesFile, "seen.Token == req.RedriveToken",
			"seen.Token <= req.RedriveToken"}},
	}, {
		name:   "a redrive does not open its key",
		undoes: "rule 10",
		shows:  "a letter that an operator redrives is never handled",
		test:   judges,
		changes: []replacement{{
			rulesFile,
			"return seen.Status == StatusFailed && seen.Token",
			"return seen.Status == StatusStarted && seen.Token",
		}},
	}, {
		name:   "a claim whose answer was lost does not recognise itself",
		undoes: "rule 5",
		shows:  "a key is in flight without an owner; its attempts grow",
		test:   judges,
		changes: []replacement{{rulesFile, "seen.Owner == req.Owner && req.Owner != \"\"",
			"seen.Owner == req.Owner && req.Owner == \"\""}},
	}, {
		name:    "a claim can be deleted before its lease is over",
		undoes:  "rule 9",
		shows:   "the expiry of a STARTED entry is before the end of its lease",
		test:    "idem/store TestClaimCreatesOrContinuesAnEntry",
		changes: []replacement{{rulesFile, "Expiry(entry.LeaseUntil, req.Retention)", "Expiry(now, 0)"}},
	}, {
		name:   "a completed key is kept for no retention",
		undoes: "rule 9",
		shows:  "time to live deletes a COMPLETED entry before its retention is over",
		test:   "idem/store TestSettlementHoldsOnceAndIsRecognised",
		changes: []replacement{{
			rulesFile,
			"s.ResultOmitted, nil\n\t\tentry.Expiry = Expiry(now, s.Retention)",
			"s.ResultOmitted, nil\n\t\tentry.Expiry = Expiry(now, 0)",
		}},
	}, {
		name:   "a delay between attempts is not kept in the store",
		undoes: "7491d48",
		shows:  "attempts follow each other without their delay",
		test:   "idem TestAttemptsAreSpreadOverTime",
		changes: []replacement{{rulesFile, "now.Add(s.Delay.Truncate(time.Millisecond)), FailureAt",
			"now, FailureAt"}},
	},
}

// defectsOfWrites are those of the requests to DynamoDB.
var defectsOfWrites = []defect{
	{
		name:    "settlements are not conditional on STARTED",
		undoes:  "rule 3",
		shows:   "a final entry changes",
		test:    "idem/dynamostore TestRules",
		changes: []replacement{{expressionFile, "c.is(attrStatus, text(string(store.StatusStarted)))", ""}},
	}, {
		name:    "settlements are not conditional on the token",
		undoes:  "rule 3",
		shows:   "a process settles a claim that it has lost",
		test:    "idem/dynamostore TestRules",
		not:     "each claim of a run has an owner of its own",
		changes: []replacement{{expressionFile, "c.is(attrVersion, number(s.Token))", ""}},
	}, {
		name:   "settlements are conditional on neither owner nor token",
		undoes: "rule 3",
		shows:  "a process settles a claim that it does not own",
		test:   "idem/dynamostore TestRules",
		changes: []replacement{{expressionFile,
			"c.is(attrVersion, number(s.Token))\n\tc.is(attrOwner, text(s.Owner))", ""}},
	}, {
		name:    "an owner that has released a key settles it",
		undoes:  "rule 3",
		shows:   "an entry is changed by an owner that had released it",
		test:    "idem/dynamostore TestRules",
		changes: []replacement{{expressionFile, "c.absent(attrRetryAt)", ""}},
	}, {
		name:   "a take-over is conditional on the token alone",
		undoes: "rule 7",
		shows:  "a final entry changes, or a key is taken before its lease is over",
		test:   "idem/dynamostore TestTakeIsConditionalOnAllThatWasRead",
		changes: []replacement{
			{expressionFile, "c.is(attrStatus, text(string(seen.Status)))", ""},
			{expressionFile, "c.is(attrOwner, text(seen.Owner))", ""},
			{expressionFile, "c.is(attrLeaseUntil, number(seen.LeaseUntil.UnixMilli()))", ""},
			{expressionFile, "c.isTime(attrRetryAt, seen.RetryAt)", ""},
		},
	}, {
		name:   "a take-over overlooks an extension",
		undoes: "rule 7",
		shows:  "a key is taken before its lease is over",
		test:   "idem/dynamostore TestTakeIsConditionalOnAllThatWasRead",
		changes: []replacement{{expressionFile, "c.is(attrLeaseUntil, number(seen.LeaseUntil.UnixMilli()))",
			""}},
	}, {
		name:   "a delayed extension shortens a lease",
		undoes: "docs/design.md, claims and leases",
		shows:  "a shorter lease under the same owner",
		test:   "idem/dynamostore TestRules",
		changes: []replacement{{
			expressionFile,
			"term{attrLeaseUntil, atMost, number(next.LeaseUntil.UnixMilli())}",
			"term{attrLeaseUntil, atMost, number(1 << 60)}",
		}},
	}, {
		name:   "an extension does not extend",
		undoes: "heartbeats",
		shows:  "a key is taken from a handler that runs",
		test:   "idem/dynamostore TestRules",
		changes: []replacement{{
			expressionFile,
			"atMost, number(next.LeaseUntil.UnixMilli())})\n\t\tc.set(attrLeaseUntil, number(next.LeaseUntil.UnixMilli()))",
			"atMost, number(next.LeaseUntil.UnixMilli())})",
		}},
	}, {
		name:    "attempts are not given back",
		undoes:  "rule 8",
		shows:   "the attempts of a record that did not begin grow, until it has a dead letter",
		test:    "idem/dynamostore TestRules",
		changes: []replacement{{expressionFile, "if s.Refund {", "if s.Refund && s.Range != nil {"}},
	}, {
		name:    "an error of one statement of a batch is taken for success",
		undoes:  "dynamostore",
		shows:   "a key without its write; a record is done and its key STARTED",
		test:    "idem/dynamostore TestLastingThrottlingIsAnError",
		changes: []replacement{{dynamoBatch, "return nil, a.err", "return nil, nil"}},
	}, {
		name:   "a key that a batch did not read is taken for absent",
		undoes: "dynamostore",
		shows:  "a payment is handled though its key is final",
		test:   "idem/dynamostore TestUnprocessedKeysAreRetried",
		changes: []replacement{{
			dynamoBatch,
			"request = out.UnprocessedKeys; len(request) == 0 {",
			"request = out.UnprocessedKeys; len(request) >= 0 {",
		}},
	}, {
		name:   "a claim overwrites an entry",
		undoes: "rule 1",
		shows:  "a final entry changes",
		test:   "idem/dynamostore TestRules",
		changes: []replacement{{
			dynamoFile, `aws.String("attribute_not_exists(#" + AttrKey + ")")`,
			`aws.String("attribute_not_exists(#" + AttrKey + ") OR attribute_exists(#" + AttrKey + ")")`,
		}},
	}, {
		name:   "a completion with an effect under a lease of a partition overwrites an entry",
		undoes: "rule P4",
		shows:  "a payment is booked twice",
		test:   "idem/dynamostore TestRules",
		changes: []replacement{{
			txSettleFile, `aws.String("attribute_not_exists(#" + AttrKey + ")")`,
			`aws.String("attribute_not_exists(#" + AttrKey + ") OR attribute_exists(#" + AttrKey + ")")`,
		}},
	}, {
		name:   "a transaction that met a conflict is taken for committed",
		undoes: "dynamostore",
		shows:  "a record is done, its key STARTED, and nothing booked",
		test:   "idem/dynamostore TestConflictIsRetried",
		changes: []replacement{{txSettleFile, "return nil, false\n}\n\n// refused returns",
			"return nil, true\n}\n\n// refused returns"}},
	},
}

// defectsOfRanges are those of the leases of partitions: rules P1 to P7.
var defectsOfRanges = []defect{
	{
		name:    "a lease does not keep what a dead owner may have begun",
		undoes:  "rule P2",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestRangeOfADeadProcessIsClaimedByKey",
		changes: []replacement{{rangeRulesFile, "next.Till = max(next.Till, before.End)", ""}},
	}, {
		name:    "a lease forgets what an owner before the last one may have begun",
		undoes:  "38bc12d: Till never shrinks",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestRangeKeepsWhatADeadProcessMayHaveBegun",
		changes: []replacement{{rangeRulesFile, "next.Till = before.Till", ""}},
	}, {
		name:    "a release forgets what a dead owner may have begun",
		undoes:  "38bc12d: Till never shrinks",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestRangeKeepsWhatADeadProcessMayHaveBegun",
		changes: []replacement{{rangeLease, "&store.Range{Till: r.till}", "&store.Range{}"}},
	}, {
		name:   "a reservation forgets what a dead owner may have begun",
		undoes: "38bc12d: Till never shrinks",
		shows:  "a first attempt is begun a third time",
		test:   "idem/schedule TestStreamAfterADeadOwner|TestStreamReservesPositions",
		not:    fewReserved,
		changes: []replacement{{
			rangeStream,
			"store.Range{End: end + reservedPositions, Till: r.till}",
			"store.Range{End: end + reservedPositions}",
		}},
	}, {
		name:    "a record that a dead owner may have begun needs no claim",
		undoes:  "rule P3",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestRangeOfADeadProcessIsClaimedByKey",
		changes: []replacement{{rangeFile, "case absent && claim.Position >= r.till:", "case absent:"}},
	}, {
		name:   "a record that a dead owner may have begun is taken for settled",
		undoes: "38bc12d: no settled prefix",
		shows:  "a record is done and its payment not booked",
		test:   "idem/schedule TestRangeOfADeadProcessIsClaimedByKey",
		changes: []replacement{{
			rangeFile,
			"\tdefault:\n\t\t// a live claim",
			"\tcase absent:\n\t\tclaim.res.State = store.ClaimCompleted\n\tdefault:\n\t\t// a live claim",
		}},
	}, {
		name:   "a lease does not name its last record",
		undoes: "rule P2",
		shows:  "a first attempt is begun a third time",
		test:   "idem/schedule TestRangeOfADeadProcessIsClaimedByKey|TestRangesOfOwnersThatDie",
		changes: []replacement{{rangeFile, "r.Claims[len(r.Claims)-1].Position + 1",
			"r.Claims[len(r.Claims)-1].Position"}},
	}, {
		name:    "a process begins records that its lease does not name",
		undoes:  "rule P7",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestStreamReservesPositions",
		not:     fewReserved,
		changes: []replacement{{rangeStream, "if end == r.lease.span.End {", "if end >= r.lease.span.End {"}},
	}, {
		name:   "the token of a lease is not greater than the end of the one before",
		undoes: "rule P2",
		shows:  "the token of a payment goes back",
		test:   "idem/store TestTokenOfALeaseIsGreaterThanTheEndOfTheOneBefore",
		not:    slowMoves,
		changes: []replacement{{rangeRulesFile, "seen.Token+1, seen.LeaseUntil.UnixMilli()+1)",
			"seen.Token+1)"}},
	}, {
		name:   "a record under a lease has the token of its own clock",
		undoes: "38bc12d",
		shows:  "the token of a payment goes back",
		test:   "idem/schedule TestStreamGivesNoTokenOfATimeAfterItsLease",
		not:    slowMoves,
		changes: []replacement{{rangeFile, "max(r.token, min(res.Entry.Token, r.beat.end().UnixMilli()))",
			"res.Entry.Token"}},
	}, {
		name:   "a record under a lease has a token of a time after the lease",
		undoes: "38bc12d",
		shows:  "the token of a payment goes back",
		test:   "idem/schedule TestStreamGivesNoTokenOfATimeAfterItsLease",
		not:    tooRare,
		changes: []replacement{{rangeFile, "min(res.Entry.Token, r.beat.end().UnixMilli())",
			"res.Entry.Token"}},
	}, {
		name:   "all records under a lease have its token",
		undoes: "38bc12d: tokens of the time of the read",
		shows:  "tokens that do not grow beyond the retention",
		test:   "idem/schedule TestStreamGivesEachRecordItsOwnTime",
		not:    "no copy of a record comes under the same lease after the retention",
		changes: []replacement{{rangeFile, "max(r.token, min(res.Entry.Token, r.beat.end().UnixMilli()))",
			"r.token"}},
	}, {
		name:    "a claim by key under a lease has the token of its own clock",
		undoes:  "rule P3",
		shows:   "the token of a payment goes back",
		test:    "idem/schedule TestRangeLeavesKeysToClaims|TestRangesOfOwnersThatDie|TestKeyIsClaimedWithAGreaterTokenThanItRanWith",
		not:     slowMoves,
		changes: []replacement{{"idem/claim.go", "Token: claim.membership.leastToken(),", ""}},
	}, {
		name:   "a key is claimed with the token that its handler ran with",
		undoes: "rule P7",
		shows:  "two handlers with one token",
		test:   "idem/schedule TestKeyIsClaimedWithAGreaterTokenThanItRanWith",
		not:    tooRare,
		changes: []replacement{{"idem/membership.go", "return max(m.within.token, m.token+1)",
			"return m.within.token"}},
	}, {
		name:   "a record that was released begins without a claim",
		undoes: "rule P3",
		shows:  "a handler runs whose result is refused, again and again",
		test:   "idem/schedule TestRangeCountsFailedAttempts",
		changes: []replacement{{rangeFile, "res.Err == nil && res.Entry.Status == \"\"\n",
			"res.Err == nil\n"}},
	}, {
		name:   "records of a batch that share a key need no claims",
		undoes: "rule P3",
		shows:  "two handlers of a payment at the same time",
		test:   "idem/schedule TestRangeClaimsAKeyOfTwoRecords",
		changes: []replacement{{batchFile, "it.Unprotected || twin, s",
			"it.Unprotected || twin && it.replaced, s"}},
	}, {
		name:    "a lease is released although a settlement has no answer",
		undoes:  "rule P5",
		shows:   "a first attempt is begun a third time",
		test:    "idem/schedule TestStreamKeepsTheLeaseOfAKeyThatMayHaveNoEntry",
		config:  "host=process,pollers=2,partitions=2,IDEMSK_CLAIM=partition,IDEMSK_LEASE=1s",
		changes: []replacement{{rangeLease, "return r.open == 0 && r.lost == nil", "return r.lost == nil"}},
	}, {
		name:    "handlers are not told that the lease of their partition is lost",
		undoes:  "rule P5",
		shows:   "two handlers of a payment at the same time",
		test:    "idem/schedule TestRangeLostWhileAHandlerRuns",
		changes: []replacement{{rangeLease, "ctx.end(cause)", "_ = ctx"}},
	}, {
		name:   "a lease that was extended is taken over with the range that it had before",
		undoes: "rule P7",
		shows:  "a first attempt is begun a third time",
		test:   "idem/dynamostore TestRules",
		not:    fewReserved,
		changes: []replacement{{
			dynamoRange,
			"ss[i].Op == store.OpExtend && ss[i].Range != nil {",
			"ss[i].Op == store.OpComplete && ss[i].Range != nil {",
		}},
	},
}
