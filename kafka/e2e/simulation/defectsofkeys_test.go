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
		"COMPLETED is not final", "rule 4", "a final entry changes", judges,
		[]replacement{{rulesFile, "return seen.Status != StatusStarted && now.Before", "return seen.Status == StatusFailed && now.Before"}},
	}, {
		"FAILED is not final", "rule 4", "a final entry changes", judges,
		[]replacement{{rulesFile, "return seen.Status != StatusStarted && now.Before", "return seen.Status == StatusCompleted && now.Before"}},
	}, {
		"a take-over does not raise the token", "rule 2", "a new owner with the token of the one before", "idem/store TestClaimCreatesOrContinuesAnEntry",
		[]replacement{{rulesFile, "rec.Token, rec.Attempts = seen.Token+1,", "rec.Token, rec.Attempts = seen.Token,"}},
	}, {
		"a take-over forgets the attempts", "rule 8", "the attempts do not grow by one", "idem/store TestClaimCreatesOrContinuesAnEntry",
		[]replacement{{rulesFile, "return seen.Attempts + 1", "return 1"}},
	}, {
		"the clock skew is not added to a lease", "rule 7", "a key is taken before its lease is over at the clock of the claimer", judges,
		[]replacement{{rulesFile, "seen.LeaseUntil.Add(skew).Sub(now)", "seen.LeaseUntil.Sub(now)"}},
	}, {
		"fingerprints are not compared", "rule 6", "a record with another value has no dead letter", judges,
		[]replacement{{rulesFile, "return !seen.Fingerprint.Matches(req.Fingerprint)", "return false"}},
	}, {
		"a redrive opens a key that FAILED again after its dead letter", "rule 10", "an old letter that an operator redrives runs the payment again", judges,
		[]replacement{{rulesFile, "seen.Token == req.RedriveToken", "seen.Token >= req.RedriveToken && req.RedriveToken > 0"}},
	}, {
		"a redrive opens a key with a token that it never had", "rule 10", "a record with a large token in its header runs the payment again", judges,
		[]replacement{{rulesFile, "seen.Token == req.RedriveToken", "seen.Token <= req.RedriveToken"}},
	}, {
		"a redrive does not open its key", "rule 10", "a letter that an operator redrives is never handled", judges,
		[]replacement{{rulesFile, "return seen.Status == StatusFailed && seen.Token", "return seen.Status == StatusStarted && seen.Token"}},
	}, {
		"a claim whose answer was lost does not recognise itself", "rule 5", "a key is in flight without an owner; its attempts grow", judges,
		[]replacement{{rulesFile, "seen.Owner == req.Owner && req.Owner != \"\"", "seen.Owner == req.Owner && req.Owner == \"\""}},
	}, {
		"a claim can be deleted before its lease is over", "rule 9", "the expiry of a STARTED entry is before the end of its lease", "idem/store TestClaimCreatesOrContinuesAnEntry",
		[]replacement{{rulesFile, "Expiry(rec.LeaseUntil, req.Retention)", "Expiry(now, 0)"}},
	}, {
		"a completed key is kept for no retention", "rule 9", "time to live deletes a COMPLETED entry before its retention is over", "idem/store TestSettlementHoldsOnceAndIsRecognised",
		[]replacement{{rulesFile, "s.Result, s.ResultOmitted, nil\n\t\trec.Expiry = Expiry(now, s.Retention)", "s.Result, s.ResultOmitted, nil\n\t\trec.Expiry = Expiry(now, 0)"}},
	}, {
		"a delay between attempts is not kept in the store", "7491d48", "attempts follow each other without their delay", "idem TestAttemptsAreSpreadOverTime",
		[]replacement{{rulesFile, "now.Add(s.Delay.Truncate(time.Millisecond)), FailureAt", "now, FailureAt"}},
	},
}

// defectsOfWrites are those of the requests to DynamoDB.
var defectsOfWrites = []defect{
	{
		"settlements are not conditional on STARTED", "rule 3", "a final entry changes", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "c.is(attrStatus, text(string(store.StatusStarted)))", ""}},
	}, {
		"settlements are not conditional on the token", "rule 3", "a process settles a claim that it has lost", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "c.is(attrVersion, number(s.Token))", ""}},
	}, {
		"settlements are conditional on neither owner nor token", "rule 3", "a process settles a claim that it does not own", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "c.is(attrVersion, number(s.Token))\n\tc.is(attrOwner, text(s.Owner))", ""}},
	}, {
		"an owner that has released a key settles it", "rule 3", "an entry is changed by an owner that had released it", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "c.absent(attrRetryAt)", ""}},
	}, {
		"a take-over is conditional on the token alone", "rule 7", "a final entry changes, or a key is taken before its lease is over", "idem/dynamostore TestTakeIsConditionalOnAllThatWasRead",
		[]replacement{
			{expressionFile, "c.is(attrStatus, text(string(seen.Status)))", ""}, {expressionFile, "c.is(attrOwner, text(seen.Owner))", ""},
			{expressionFile, "c.is(attrLeaseUntil, number(seen.LeaseUntil.UnixMilli()))", ""}, {expressionFile, "c.isTime(attrRetryAt, seen.RetryAt)", ""},
		},
	}, {
		"a take-over overlooks an extension", "rule 7", "a key is taken before its lease is over", "idem/dynamostore TestTakeIsConditionalOnAllThatWasRead",
		[]replacement{{expressionFile, "c.is(attrLeaseUntil, number(seen.LeaseUntil.UnixMilli()))", ""}},
	}, {
		"a delayed extension shortens a lease", "docs/design.md, claims and leases", "a shorter lease under the same owner", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "term{attrLeaseUntil, atMost, number(next.LeaseUntil.UnixMilli())}", "term{attrLeaseUntil, atMost, number(1 << 60)}"}},
	}, {
		"an extension does not extend", "heartbeats", "a key is taken from a handler that runs", "idem/dynamostore TestRules",
		[]replacement{{
			expressionFile, "must not shorten the lease\n\t\tc.set(attrLeaseUntil, number(next.LeaseUntil.UnixMilli()))", "must not shorten the lease",
		}},
	}, {
		"attempts are not given back", "rule 8", "the attempts of a record that did not begin grow, until it has a dead letter", "idem/dynamostore TestRules",
		[]replacement{{expressionFile, "if s.Refund {", "if s.Refund && s.Range != nil {"}},
	}, {
		"an error of one statement of a batch is taken for success", "dynamostore", "a key without its write; a record is done and its key STARTED", "idem/dynamostore TestLastingThrottlingIsAnError",
		[]replacement{{dynamoBatch, "return nil, a.err", "return nil, nil"}},
	}, {
		"a key that a batch did not read is taken for absent", "dynamostore", "a payment is handled though its key is final", "idem/dynamostore TestUnprocessedKeysAreRetried",
		[]replacement{{dynamoBatch, "request = out.UnprocessedKeys; len(request) == 0 {", "request = out.UnprocessedKeys; len(request) >= 0 {"}},
	}, {
		"a claim overwrites an entry", "rule 1", "a final entry changes", "idem/dynamostore TestRules",
		[]replacement{{
			dynamoFile, `aws.String("attribute_not_exists(#" + AttrKey + ")")`,
			`aws.String("attribute_not_exists(#" + AttrKey + ") OR attribute_exists(#" + AttrKey + ")")`,
		}},
	}, {
		"a completion with an effect under a lease of a partition overwrites an entry", "rule P4", "a payment is booked twice", "idem/dynamostore TestRules",
		[]replacement{{
			txSettleFile, `aws.String("attribute_not_exists(#" + AttrKey + ")")`,
			`aws.String("attribute_not_exists(#" + AttrKey + ") OR attribute_exists(#" + AttrKey + ")")`,
		}},
	}, {
		"a transaction that met a conflict is taken for committed", "dynamostore", "a record is done, its key STARTED, and nothing booked", "idem/dynamostore TestConflictIsRetried",
		[]replacement{{txSettleFile, "return nil, false\n}\n\n// refused returns", "return nil, true\n}\n\n// refused returns"}},
	},
}

// defectsOfRanges are those of the leases of partitions: rules P1 to P7.
var defectsOfRanges = []defect{
	{
		"a lease does not keep what a dead owner may have begun", "rule P2", "a first attempt is begun a third time", "idem/batch TestRangeOfADeadProcessIsClaimedByKey",
		[]replacement{{rangeRulesFile, "next.Till = max(next.Till, before.End)", ""}},
	}, {
		"a lease forgets what an owner before the last one may have begun", "38bc12d: Till never shrinks", "a first attempt is begun a third time", "idem/batch TestRangeKeepsWhatADeadProcessMayHaveBegun",
		[]replacement{{rangeRulesFile, "next.Till = before.Till", ""}},
	}, {
		"a release forgets what a dead owner may have begun", "38bc12d: Till never shrinks", "a first attempt is begun a third time", "idem/batch TestRangeKeepsWhatADeadProcessMayHaveBegun",
		[]replacement{{rangeLease, "&store.Range{Till: r.till}", "&store.Range{}"}},
	}, {
		"a reservation forgets what a dead owner may have begun", "38bc12d: Till never shrinks", "a first attempt is begun a third time", "idem/batch TestStreamAfterADeadOwner|TestStreamReservesPositions",
		[]replacement{{rangeStream, "store.Range{End: end + reservedPositions, Till: r.till}", "store.Range{End: end + reservedPositions}"}},
	}, {
		"a record that a dead owner may have begun needs no claim", "rule P3", "a first attempt is begun a third time", "idem/batch TestRangeOfADeadProcessIsClaimedByKey",
		[]replacement{{rangeFile, "case absent && claim.Position >= r.till:", "case absent:"}},
	}, {
		"a record that a dead owner may have begun is taken for settled", "38bc12d: no settled prefix", "a record is done and its payment not booked", "idem/batch TestRangeOfADeadProcessIsClaimedByKey",
		[]replacement{{rangeFile, "\tdefault: // a live claim", "\tcase absent:\n\t\tclaim.res.State = store.ClaimCompleted\n\tdefault: // a live claim"}},
	}, {
		"a lease does not name its last record", "rule P2", "a first attempt is begun a third time", "idem/batch TestRangeOfADeadProcessIsClaimedByKey|TestRangesOfOwnersThatDie",
		[]replacement{{rangeFile, "r.Claims[len(r.Claims)-1].Position + 1", "r.Claims[len(r.Claims)-1].Position"}},
	}, {
		"a process begins records that its lease does not name", "rule P7", "a first attempt is begun a third time", "idem/batch TestStreamReservesPositions",
		[]replacement{{rangeStream, "if end == r.lease.span.End {", "if end >= r.lease.span.End {"}},
	}, {
		"the token of a lease is not greater than the end of the one before", "rule P2", "the token of a payment goes back", "idem/store TestTokenOfALeaseIsGreaterThanTheEndOfTheOneBefore",
		[]replacement{{rangeRulesFile, "seen.Token+1, seen.LeaseUntil.UnixMilli()+1)", "seen.Token+1)"}},
	}, {
		"a record under a lease has the token of its own clock", "38bc12d", "the token of a payment goes back", "idem/batch TestStreamGivesNoTokenOfATimeAfterItsLease",
		[]replacement{{rangeFile, "max(r.token, min(res.Entry.Token, r.beat.end().UnixMilli()))", "res.Entry.Token"}},
	}, {
		"a record under a lease has a token of a time after the lease", "38bc12d", "the token of a payment goes back", "idem/batch TestStreamGivesNoTokenOfATimeAfterItsLease",
		[]replacement{{rangeFile, "min(res.Entry.Token, r.beat.end().UnixMilli())", "res.Entry.Token"}},
	}, {
		"all records under a lease have its token", "38bc12d: tokens of the time of the read", "tokens that do not grow beyond the retention", "idem/batch TestStreamGivesEachRecordItsOwnTime",
		[]replacement{{rangeFile, "max(r.token, min(res.Entry.Token, r.beat.end().UnixMilli()))", "r.token"}},
	}, {
		"a claim by key under a lease has the token of its own clock", "rule P3", "the token of a payment goes back", "idem/batch TestRangeLeavesKeysToClaims|TestRangesOfOwnersThatDie|TestKeyIsClaimedWithAGreaterTokenThanItRanWith",
		[]replacement{{"idem/session.go", "Token: claim.leastToken(),", ""}},
	}, {
		"a key is claimed with the token that its handler ran with", "rule P7", "two handlers with one token", "idem/batch TestKeyIsClaimedWithAGreaterTokenThanItRanWith",
		[]replacement{{rangeFile, "return max(claim.within.token, claim.ran+1)", "return claim.within.token"}},
	}, {
		"a record that was released begins without a claim", "rule P3", "a handler runs whose result is refused, again and again", "idem/batch TestRangeCountsFailedAttempts",
		[]replacement{{rangeFile, "res.Err == nil && res.Entry.Status == \"\"\n", "res.Err == nil\n"}},
	}, {
		"records of a batch that share a key need no claims", "rule P3", "two handlers of a payment at the same time", "lambda/msk TestPlainAndBatchedStoresEndAlike",
		[]replacement{{"idem/batch/ranges.go", "it.Unprotected || byKey(it)", "it.Unprotected"}},
	}, {
		"a lease is released although a settlement has no answer", "rule P5", "a first attempt is begun a third time", "idem/batch TestStreamKeepsTheLeaseOfAKeyThatMayHaveNoEntry",
		[]replacement{{rangeLease, "return r.open == 0 && r.lost == nil", "return r.lost == nil"}},
	}, {
		"handlers are not told that the lease of their partition is lost", "rule P5", "two handlers of a payment at the same time", "idem/batch TestRangeLostWhileAHandlerRuns",
		[]replacement{{rangeLease, "ctx.end(cause)", "_ = ctx"}},
	}, {
		"a lease that was extended is taken over with the range that it had before", "rule P7", "a first attempt is begun a third time", "idem/dynamostore TestRules",
		[]replacement{{dynamoRange, "ss[i].Op == store.OpExtend && ss[i].Range != nil {", "ss[i].Op == store.OpComplete && ss[i].Range != nil {"}},
	},
}
