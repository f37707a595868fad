package simulation_test

const (
	runFile       = "idem/run.go"
	settleFile    = "idem/settle.go"
	sessionFile   = "idem/session.go"
	heartbeatFile = "idem/heartbeat.go"
	outageFile    = "idem/outage.go"
	outcomeFile   = "idem/outcome.go"
	errorsFile    = "idem/errors.go"
	taskFile      = "idem/task.go"
	openFile      = "idem/unprotected.go"
)

// settledKinds are the kinds of outcome that need no further delivery.
const settledKinds = "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected:"

// defectsOfAttempts are those of how a task ends, and of its attempts.
var defectsOfAttempts = []defect{
	{
		"FAILED is written before the dead letter is sent", "docs/design.md, how a record is settled", "a key is FAILED, and its dead letter was not sent", "idem TestDeadLetterIsSentBeforeFAILED",
		[]replacement{{
			runFile, "	if err := s.sendDeadLetter(&claim.Task, b); err != nil {",
			"	early := claim.settlement(store.OpFail, s.engine.cfg.Retention)\n	early.Failure = failure\n	_ = s.send(early)\n	if err := s.sendDeadLetter(&claim.Task, b); err != nil {",
		}},
	}, {
		"a dead letter that could not be sent is taken for sent", "docs/design.md, how a record is settled", "a key is FAILED, and its dead letter was not sent", "idem TestTaskIsRetriedIfItsDeadLetterCannotBeSent",
		[]replacement{{runFile, "return task.DeadLetters.Send(ctx, b)", "_ = task.DeadLetters.Send(ctx, b)\n	return nil"}},
	}, {
		"a dead letter is sent for a task that may be tried again", "rule 8", "a payment that does not fail has a dead letter", "idem TestLastAttemptIsDeadLettered",
		[]replacement{{runFile, "case claim.res.Entry.Attempts >= s.engine.attemptLimit(&claim.Task):", "case claim.res.Entry.Attempts+1 >= s.engine.attemptLimit(&claim.Task):"}},
	}, {
		"a task whose processes died at each attempt is tried for ever", "rule 8", "a record that kills its process is never settled", "idem TestTaskThatKillsItsProcessIsDeadLettered",
		[]replacement{{runFile, "claim.res.Entry.Attempts > limit {", "claim.res.Entry.Attempts > 1000*limit {"}},
	}, {
		"claims that were not run are not given back", "rule 8", "the attempts of a record that did not begin grow", "idem TestReleaseRefundsAttempts",
		[]replacement{{sessionFile, "set.Refund = true", "set.Refund = false"}},
	}, {
		"an unavailable dependency costs attempts", "rule 8", "a payment that does not fail has a dead letter", "idem TestUnavailableDependencyCostsNoAttempts",
		[]replacement{{settleFile, "s.release(claim, f, delay, true)", "s.release(claim, f, delay, false)"}},
	}, {
		"a handler that the end of its process has cancelled costs an attempt", "rule 8", "the attempts grow with each deployment", "idem TestCancelledHandlerCostsNoAttempt",
		[]replacement{{runFile, "if s.interrupted(err) {", "if s.interrupted(err) && claim.Task.DeadLetters == nil {"}},
	}, {
		"after a lost lease an error decides", "docs/design.md, claims and leases", "a dead letter of a payment that another owner completes", "idem TestLossDetectedWhileTheHandlerEnds",
		[]replacement{{runFile, "if err != nil && lost != nil {", "if err != nil && lost != nil && claim.Task.DeadLetters == nil {"}},
	}, {
		"a failed task has no delay", "7491d48", "attempts follow each other without their delay", "idem TestAttemptsAreSpreadOverTime",
		[]replacement{{runFile, "cmp.Or(c.delay, s.engine.retryDelay(claim))", "cmp.Or(c.delay, 0)"}},
	}, {
		"an unavailable dependency does not say when to try again", "3e4cd55", "a key is claimed before the delay of RetryAfter has passed", "idem TestUnavailableDependencyCostsNoAttempts|TestHandlerErrors",
		[]replacement{{errorsFile, "classify(err, unavailable, RetryDelay(err))", "classify(err, unavailable, 0)"}},
	}, {
		"a completion without an answer counts as settled", "docs/design.md, how a record is settled", "a record is done and its key STARTED", "idem TestKinds",
		[]replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, CompletionFailed:"},
			{outcomeFile, "Fenced, CompletionFailed, StoreDown, Mismatched, InvalidKey:\n	}", "Fenced, StoreDown, Mismatched, InvalidKey:\n	}"},
		},
	}, {
		"a key in flight elsewhere counts as settled", "docs/design.md, how a record is settled", "a record is done and its key STARTED", "idem TestKinds",
		[]replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, InFlight:"},
			{outcomeFile, "DependencyDown, InFlight, NotStarted, Fenced,", "DependencyDown, NotStarted, Fenced,"},
		},
	}, {
		"a key that another owner has taken counts as settled", "rule 3", "a record is done and its key STARTED", "idem TestKinds",
		[]replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, Fenced:"},
			{outcomeFile, "NotStarted, Fenced, CompletionFailed, StoreDown", "NotStarted, CompletionFailed, StoreDown"},
		},
	}, {
		"a task that was not started counts as settled", "docs/design.md, how a record is settled", "a record is done and its payment not booked", "idem TestKinds",
		[]replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, NotStarted:"},
			{outcomeFile, "DependencyDown, InFlight, NotStarted, Fenced,", "DependencyDown, InFlight, Fenced,"},
		},
	}, {
		"an engine fails open though it is to fail closed", "docs/configuration.md, IDEMSK_STORE_DOWN", "a payment is handled without a claim", "idem TestNoHandlerIsCalledWhileTheStoreIsDown",
		[]replacement{{openFile, "return e.cfg.StoreDown == FailOpen && errors.Is", "return errors.Is"}},
	}, {
		"a key in flight is handled without protection", "docs/configuration.md, IDEMSK_STORE_DOWN", "a payment is handled without a claim while the store answers", "idem TestFailOpenAppliesOnlyToAnUnavailableStore",
		[]replacement{{openFile, "errors.Is(err, ErrStoreUnavailable) &&", "err != nil &&"}},
	}, {
		"a wrong table fails open", "5e2765d", "a payment is handled without a claim though the store answers", "idem/dynamostore TestWrongTableDoesNotFailOpen",
		[]replacement{{openFile, " && !errors.Is(err, store.ErrMisconfigured)\n", "&& !errors.Is(err, store.ErrInvalidKey)\n"}},
	},
}

// defectsOfLeases are those of the time of a claim.
var defectsOfLeases = []defect{
	{
		"heartbeats are not sent", "docs/design.md, claims and leases", "two handlers of a payment, the first one of which is cancelled or refused", "idem TestLeaseIsExtendedAtEveryThird",
		[]replacement{{heartbeatFile, "time.AfterFunc(time.Until(claim.claimedAt.Add(cfg.beat())), h.beat)", "time.AfterFunc(time.Hour, h.beat)"}},
	}, {
		"a lease is extended only while the handler runs", "docs/design.md: a lease lasts until the settlement has an answer", "a payment is taken from an owner that settles it", "idem TestLeaseIsExtendedUntilTheKeyIsSettled",
		[]replacement{{heartbeatFile, "	h.join()\n	return h.lost", "	h.join()\n	h.stopped = true\n	return h.lost"}},
	}, {
		"a handler is not told that its lease is lost", "docs/design.md, claims and leases", "two handlers of a payment at the same time", "idem TestHandlerIsCancelledWhenItsKeyIsTaken",
		[]replacement{{heartbeatFile, "h.handler.end(h.lost)", ""}},
	}, {
		"a handler is not told that its lease is over by the local clock", "docs/design.md, claims and leases", "two handlers of a payment at the same time", "idem TestUnreachableStoreEndsTheLeaseByTheLocalClock",
		[]replacement{
			{heartbeatFile, "case left <= 0:", "case left <= -time.Hour:"}, {heartbeatFile, "h.again(min(left, cfg.retryBeat()))", "h.again(cfg.retryBeat())"},
		},
	}, {
		"a lease is counted from the answer of its extension", "heartbeats", "two handlers of a payment at the same time", "idem TestExtendedLeaseStartsWithTheRequest",
		[]replacement{{heartbeatFile, "h.leaseEnd, h.failed = sent.Add(cfg.Lease), nil", "h.leaseEnd, h.failed = time.Now().Add(cfg.Lease), nil"}},
	}, {
		"a lease is counted from the answer of its claim", "heartbeats", "two handlers of a payment at the same time", "idem TestLeaseOfARetriedClaimStartsWithTheFirstRequest|TestUnreachableStoreEndsTheLeaseByTheLocalClock",
		[]replacement{{sessionFile, "claim.res, claim.took = results[i], took", "claim.res, claim.took, claim.claimedAt = results[i], took, time.Now()"}},
	}, {
		"a claim that has waited beyond its lease begins", "docs/design.md, claims and leases", "two handlers of a payment at the same time", "idem TestOldClaimIsExtendedBeforeItsHandlerBegins",
		[]replacement{{runFile, "if time.Since(claim.claimedAt) < s.engine.cfg.beat() {", "if time.Since(claim.claimedAt) < s.engine.cfg.beat()+MaxLease {"}},
	}, {
		"a handler begins after an extension that took longer than the lease", "docs/design.md, claims and leases", "two handlers of a payment at the same time", "idem TestHandlerIsNotBegunAfterALateExtension",
		[]replacement{{runFile, "if time.Since(claim.claimedAt) < s.engine.cfg.Lease {", "if time.Since(claim.claimedAt) < s.engine.cfg.Lease || err == nil {"}},
	}, {
		"a handler begins before the effect of the one before is committed", "docs/design.md, effects and outbox", "a payment of an account is handled before an earlier one is booked", "idem TestEffectIsCommittedBeforeTheNextHandler",
		[]replacement{{runFile, "if set.Effect != nil {\n		done(s.concluded", "if set.Effect != nil && set.Claim != nil {\n		done(s.concluded"}},
	}, {
		"more completions than the commit window are not confirmed", "IDEMSK_COMMIT_WINDOW", "a process that dies leaves more handled payments than its window", "idem TestCommitWindowBoundsUnconfirmedCompletions",
		[]replacement{{sessionFile, "make(chan struct{}, e.cfg.CommitWindow)", "make(chan struct{}, MaxCommitWindow)"}},
	},
}

// defectsOfOutages are those of outages of what handlers need.
var defectsOfOutages = []defect{
	{
		"an outage does not give attempts back", "69816c7", "a payment that does not fail has a dead letter", "idem TestLastAttemptIsGivenBackDuringAnOutage",
		[]replacement{{
			runFile, "return s.giveBack(claim, out, claim.givenBack(err), classOf(err).delay), store.Settlement{}",
			"return s.released(claim, out, s.release(claim, failureOf(err), classOf(err).delay, false)), store.Settlement{}",
		}},
	}, {
		"a key is a sign of an outage again and again", "cf21b46", "a record that always fails looks like an outage, and never has a dead letter", "idem TestKeyIsASignOfAnOutageOnce",
		[]replacement{{outageFile, "o.since.IsZero() && (before || attempt > 1):", "o.since.IsZero() && before && attempt < 0:"}},
	}, {
		"a success does not end an outage", "69816c7", "records wait though what the handler needs is up", "idem TestOneTaskTriesTheHandlerDuringAnOutage",
		[]replacement{{outageFile, "	delete(o.known, key)\n	o.failed, o.last", "	if !o.since.IsZero() {\n		o.trying = \"\"\n		o.schedule(time.Now())\n		return\n	}\n	o.failed, o.last"}},
	}, {
		"failures with successes between them are an outage", "69816c7", "records that always fail look like an outage, and never have a dead letter", "idem TestFailuresThatAreNoOutage",
		[]replacement{{outageFile, "o.failed, o.last, o.since, o.trying = o.failed[:0], nil, time.Time{}, \"\"", "o.since, o.trying = time.Time{}, \"\""}},
	}, {
		"all tasks try the handler during an outage", "69816c7", "more than one payment is handled at a time during an outage", "idem TestOneTaskTriesTheHandlerDuringAnOutage",
		[]replacement{{outageFile, "o.trying, o.lapses = key, now.Add(max(o.lease, o.pause))", "o.lapses = now.Add(max(o.lease, o.pause))"}},
	}, {
		"a bad record takes each try during an outage", "cf21b46", "records wait longer than the pauses of an outage", "idem TestKeysThatFailedWaitLongerDuringAnOutage",
		[]replacement{{outageFile, "o.next.Add(o.turn(key)).Sub(now)", "o.next.Sub(now)"}},
	}, {
		"a handler that does not return holds all others back for ever", "69816c7", "records are not settled", "idem TestTaskThatTriesTheHandlerIsAlone",
		[]replacement{{outageFile, "return max(0, o.lapses.Sub(now))", "return o.lease"}},
	}, {
		"an outage has no limit", "69816c7: IDEMSK_OUTAGE_LIMIT", "records that always fail never have a dead letter", "idem TestOutageLimit",
		[]replacement{{outageFile, "(o.limit == 0 || now.Sub(o.since) < o.limit)", "o.limit >= 0"}},
	}, {
		"permanent errors are an outage", "69816c7", "a permanent failure has no dead letter, and its attempts are given back", "idem TestPermanentErrorsCountDuringAnOutage",
		[]replacement{{runFile, "case claim.Together, c == permanent, c == callFailed:", "case claim.Together, c == callFailed:"}},
	}, {
		"errors beside a success of the same call are an outage", "69816c7", "records that always fail never have a dead letter", "idem/batch TestErrorsBesideASuccessAreNoOutage",
		[]replacement{{runFile, "case claim.Together, c == permanent,", "case c == permanent,"}},
	}, {
		"a cancelled handler is a sign of an outage", "69816c7", "an outage after a deployment", "idem TestCancelledHandlerIsNoSignOfAnOutage",
		[]replacement{{runFile, "	discard(effect)\n	if s.interrupted(err) {", "	discard(effect)\n	_, _ = s.duringOutage(claim, err)\n	if s.interrupted(err) {"}},
	}, {
		"a rejected record waits for the end of an outage", "69816c7", "a record without a key has no dead letter during an outage", "idem TestRejectedTaskIsNotHeldBack",
		[]replacement{{outageFile, "o.quiet() || claim.Task.Rejected {", "o.quiet() {"}},
	}, {
		"an outage lets a record that failed in a call be handled with others again", "4536a76", "a payment has its effect twice beside a bad record", "idem/batch TestOutagesMakeNoDeadLetters|TestBadItemsOfCallsCostThemselvesOnly",
		[]replacement{{taskFile, "if claim.Again || claim.FailedBefore() {", "if claim.Again && claim.FailedBefore() && f.Code == \"\" {"}},
	}, {
		"what an outage has held back waits for the next delivery", "2eac541", "a record waits longer than the outage", "idem/batch TestItemsAreHandledInTheInvocationInWhichAnOutageEnds",
		[]replacement{{"idem/batch/scheduler.go", "if lanes = r.heldBack(); len(lanes) == 0 {", "if lanes = r.heldBack(); len(lanes) >= 0 {"}},
	}, {
		"a bulk handler does not get what an outage has held back", "0885ec5", "a record waits longer than the outage", "idem/batch TestItemsAreHandledInTheInvocationInWhichAnOutageEnds",
		[]replacement{{bulkFile, "if it.heldBack() && !b.closed {", "if it.heldBack() && b.closed {"}},
	},
}
