package simulation_test

const (
	begunFile      = "idem/begun.go"
	executionFile  = "idem/execution.go"
	holdFile       = "idem/hold.go"
	deadLetterFile = "idem/deadletter.go"
	claimFile      = "idem/claim.go"
	settleFile     = "idem/settle.go"
	sessionFile    = "idem/session.go"
	heartbeatFile  = "idem/heartbeat.go"
	outageFile     = "idem/outage.go"
	outcomeFile    = "idem/outcome.go"
	errorsFile     = "idem/errors.go"
	taskFile       = "idem/task.go"
	openFile       = "idem/unprotected.go"
)

// settledKinds are the kinds of outcome that need no further delivery.
const settledKinds = "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected:"

// defectsOfAttempts are those of how a task ends, and of its attempts.
var defectsOfAttempts = []defect{
	{
		name:   "FAILED is written before the dead letter is sent",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a key is FAILED, and its dead letter was not sent",
		test:   "idem TestDeadLetterIsSentBeforeFAILED",
		changes: []replacement{{
			executionFile, "\tif err := x.session.sendDeadLetter(&x.claim.Task, letter); err != nil {",
			"\tearly := x.claim.settlement(store.OpFail, x.cfg().Retention)\n\tearly.Failure = failure\n" +
				"\t_ = x.session.send(early)\n\tif err := x.session.sendDeadLetter(&x.claim.Task, letter); err != nil {",
		}},
	}, {
		name:   "a dead letter that could not be sent is taken for sent",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a key is FAILED, and its dead letter was not sent",
		test:   "idem TestTaskIsRetriedIfItsDeadLetterCannotBeSent",
		changes: []replacement{{deadLetterFile, "return task.DeadLetters.Send(ctx, letter)",
			"_ = task.DeadLetters.Send(ctx, letter)\n\treturn nil"}},
	}, {
		name:   "a dead letter is sent for a task that may be tried again",
		undoes: "rule 8",
		shows:  "a payment that does not fail has a dead letter",
		test:   "idem TestLastAttemptIsDeadLettered",
		changes: []replacement{{
			executionFile,
			"case attempts >= x.session.engine.attemptLimit(x.claim):",
			"case attempts+1 >= x.session.engine.attemptLimit(x.claim):",
		}},
	}, {
		name:   "a task whose processes died at each attempt is tried for ever",
		undoes: "rule 8",
		shows:  "a record that kills its process is never settled",
		test:   "idem TestTaskThatKillsItsProcessIsDeadLettered",
		changes: []replacement{{executionFile, "claim.res.Entry.Attempts > limit {",
			"claim.res.Entry.Attempts > 1000*limit {"}},
	}, {
		name:    "claims that were not run are not given back",
		undoes:  "rule 8",
		shows:   "the attempts of a record that did not begin grow",
		test:    "idem TestReleaseRefundsAttempts",
		changes: []replacement{{claimFile, "set.Refund = true", "set.Refund = false"}},
	}, {
		name:    "an unavailable dependency costs attempts",
		undoes:  "rule 8",
		shows:   "a payment that does not fail has a dead letter",
		test:    "idem TestUnavailableDependencyCostsNoAttempts",
		changes: []replacement{{settleFile, "x.release(f, delay, true)", "x.release(f, delay, false)"}},
	}, {
		name:   "a handler that the end of its process has cancelled costs an attempt",
		undoes: "rule 8",
		shows:  "the attempts grow with each deployment",
		test:   "idem TestCancelledHandlerCostsNoAttempt",
		changes: []replacement{{
			executionFile,
			"if interrupted(x.session.handlers, err) {",
			"if interrupted(x.session.handlers, err) && x.claim.Task.DeadLetters == nil {",
		}},
	}, {
		name:   "after a lost lease an error decides",
		undoes: "docs/design.md, claims and leases",
		shows:  "a dead letter of a payment that another owner completes",
		test:   "idem TestLossDetectedWhileTheHandlerEnds",
		changes: []replacement{{
			executionFile,
			"if err == nil || lost == nil {",
			"if err == nil || lost == nil || claim.Task.DeadLetters != nil {",
		}},
	}, {
		name:   "a failed task has no delay",
		undoes: "7491d48",
		shows:  "attempts follow each other without their delay",
		test:   "idem TestAttemptsAreSpreadOverTime",
		changes: []replacement{{executionFile, "cmp.Or(c.delay, x.session.engine.retryDelay(x.claim))",
			"cmp.Or(c.delay, 0)"}},
	}, {
		name:   "an unavailable dependency does not say when to try again",
		undoes: "3e4cd55",
		shows:  "a key is claimed before the delay of RetryAfter has passed",
		test:   "idem TestUnavailableDependencyCostsNoAttempts|TestHandlerErrors",
		changes: []replacement{{errorsFile, "classify(err, unavailable, RetryDelay(err))",
			"classify(err, unavailable, 0)"}},
	}, {
		name:   "a completion without an answer counts as settled",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a record is done and its key STARTED",
		test:   "idem TestKinds",
		changes: []replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, CompletionFailed:"},
			{outcomeFile, "Fenced, CompletionFailed, StoreDown,\n", "Fenced, StoreDown,\n"},
		},
	}, {
		name:   "a key in flight elsewhere counts as settled",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a record is done and its key STARTED",
		test:   "idem TestKinds",
		changes: []replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, InFlight:"},
			{outcomeFile, "DependencyDown, InFlight, NotStarted, Fenced,",
				"DependencyDown, NotStarted, Fenced,"},
		},
	}, {
		name:   "a key that another owner has taken counts as settled",
		undoes: "rule 3",
		shows:  "a record is done and its key STARTED",
		test:   "idem TestKinds",
		changes: []replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, Fenced:"},
			{outcomeFile, "NotStarted, Fenced, CompletionFailed, StoreDown",
				"NotStarted, CompletionFailed, StoreDown"},
		},
	}, {
		name:   "a task that was not started counts as settled",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a record is done and its payment not booked",
		test:   "idem TestKinds",
		changes: []replacement{
			{outcomeFile, settledKinds, "case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected, NotStarted:"},
			{outcomeFile, "DependencyDown, InFlight, NotStarted, Fenced,",
				"DependencyDown, InFlight, Fenced,"},
		},
	}, {
		name:   "a task that a completion of another request has fenced is a duplicate of it",
		undoes: "rule 3",
		shows:  "a record with another value has no dead letter",
		test:   "idem TestOutcomeOfATaskWhoseKeyWasTaken",
		not:    "while a task runs, its key is completed for another value only if its entry is deleted",
		changes: []replacement{{
			settleFile,
			"cur.Status == store.StatusCompleted && cur.Fingerprint.Matches(x.claim.Task.Fingerprint)",
			"cur.Status == store.StatusCompleted",
		}},
	}, {
		name:   "an engine fails open though it is to fail closed",
		undoes: "docs/configuration.md, IDEMSK_STORE_DOWN",
		shows:  "a payment is handled without a claim",
		test:   "idem TestNoHandlerIsCalledWhileTheStoreIsDown",
		changes: []replacement{{openFile, "return e.cfg.FailOpen && errors.Is",
			"return errors.Is"}},
	}, {
		name:    "a key in flight is handled without protection",
		undoes:  "docs/configuration.md, IDEMSK_STORE_DOWN",
		shows:   "a payment is handled without a claim while the store answers",
		test:    "idem TestFailOpenAppliesOnlyToAnUnavailableStore",
		changes: []replacement{{openFile, "errors.Is(err, ErrStoreUnavailable) &&", "err != nil &&"}},
	}, {
		name:   "a wrong table fails open",
		undoes: "5e2765d",
		shows:  "a payment is handled without a claim though the store answers",
		test:   "idem/dynamostore TestWrongTableDoesNotFailOpen",
		not:    "the table of a run is right",
		changes: []replacement{{openFile, "!errors.Is(err, store.ErrMisconfigured)\n",
			"!errors.Is(err, store.ErrInvalidKey)\n"}},
	}, {
		name:   "a dead letter of a process must be sent within a lease",
		undoes: "990a822",
		shows:  "a dead letter is sent again and again",
		test:   "idem TestDeadLetterMayTakeLongerThanALease",
		config: "host=process,letters=slow queue,IDEMSK_LEASE=1s",
		changes: []replacement{{deadLetterFile, "return context.WithTimeout(s.settling, letterTime)",
			"return context.WithTimeout(s.settling, s.engine.cfg.Lease)"}},
	},
}

// defectsOfLeases are those of the time of a claim.
var defectsOfLeases = []defect{
	{
		name:   "heartbeats are not sent",
		undoes: "docs/design.md, claims and leases",
		shows:  "two handlers of a payment, the first one of which is cancelled or refused",
		test:   "idem TestLeaseIsExtendedAtEveryThird",
		changes: []replacement{{
			heartbeatFile,
			"time.AfterFunc(time.Until(claimedAt.Add(h.session.engine.cfg.beat())), h.beat)",
			"time.AfterFunc(time.Hour, h.beat)",
		}},
	}, {
		name:   "a lease is extended only while the handler runs",
		undoes: "docs/design.md: a lease lasts until the settlement has an answer",
		shows:  "a payment is taken from an owner that settles it",
		test:   "idem TestLeaseIsExtendedUntilTheKeyIsSettled",
		not:    "a settlement that has lost its lease is fenced, as after a pause of its process",
		changes: []replacement{{heartbeatFile, "\th.join()\n\treturn h.lost",
			"\th.join()\n\th.stopped = true\n\treturn h.lost"}},
	}, {
		name:    "a handler is not told that its lease is lost",
		undoes:  "docs/design.md, claims and leases",
		shows:   "two handlers of a payment at the same time",
		test:    "idem TestHandlerIsCancelledWhenItsKeyIsTaken",
		changes: []replacement{{heartbeatFile, "h.handler.end(h.lost)", ""}},
	}, {
		name:   "a handler is not told that its lease is over by the local clock",
		undoes: "docs/design.md, claims and leases",
		shows:  "two handlers of a payment at the same time",
		test:   "idem TestUnreachableStoreEndsTheLeaseByTheLocalClock",
		changes: []replacement{
			{heartbeatFile, "case left <= 0:", "case left <= -time.Hour:"},
			{heartbeatFile, "h.again(min(left, cfg.retryBeat()))", "h.again(cfg.retryBeat())"},
		},
	}, {
		name:   "a lease is counted from the answer of its extension",
		undoes: "heartbeats",
		shows:  "two handlers of a payment at the same time",
		test:   "idem TestExtendedLeaseStartsWithTheRequest",
		changes: []replacement{{
			heartbeatFile,
			"h.leaseEnd, h.failed = sent.Add(cfg.Lease), nil",
			"h.leaseEnd, h.failed = time.Now().Add(cfg.Lease), nil",
		}},
	}, {
		name:   "a lease is counted from the answer of its claim",
		undoes: "heartbeats",
		shows:  "two handlers of a payment at the same time",
		test:   "idem TestLeaseOfARetriedClaimStartsWithTheFirstRequest|TestUnreachableStoreEndsTheLeaseByTheLocalClock",
		changes: []replacement{{
			claimFile,
			"claim.res, claim.took = results[i], took",
			"claim.res, claim.took, claim.hold.claimedAt = results[i], took, time.Now()",
		}},
	}, {
		name:   "a claim that has waited beyond its lease begins",
		undoes: "docs/design.md, claims and leases",
		shows:  "two handlers of a payment at the same time",
		test:   "idem TestOldClaimIsExtendedBeforeItsHandlerBegins",
		changes: []replacement{{
			holdFile,
			"time.Since(claim.hold.claimedAt) >= cfg.beat()\n",
			"time.Since(claim.hold.claimedAt) >= cfg.beat()+store.MaxLease\n",
		}},
	}, {
		name:   "a handler begins after an extension that took longer than the lease",
		undoes: "docs/design.md, claims and leases",
		shows:  "two handlers of a payment at the same time",
		test:   "idem TestHandlerIsNotBegunAfterALateExtension",
		changes: []replacement{{
			holdFile,
			"if time.Since(claim.hold.claimedAt) < cfg.Lease {",
			"if time.Since(claim.hold.claimedAt) < cfg.Lease || err == nil {",
		}},
	}, {
		name:   "a handler begins before the effect of the one before is committed",
		undoes: "docs/design.md, effects and outbox",
		shows:  "a payment of an account is handled before an earlier one is booked",
		test:   "idem TestEffectIsCommittedBeforeTheNextHandler",
		changes: []replacement{{
			begunFile,
			"case set.Effect != nil:",
			"case set.Effect != nil && set.Claim != nil:",
		}},
	}, {
		name:   "more completions than the commit window are not confirmed",
		undoes: "IDEMSK_COMMIT_WINDOW",
		shows:  "a process that dies leaves more handled payments than its window",
		test:   "idem TestCommitWindowBoundsUnconfirmedCompletions",
		changes: []replacement{{sessionFile, "make(chan struct{}, e.cfg.CommitWindow)",
			"make(chan struct{}, store.MaxCommitWindow)"}},
	},
}

// defectsOfOutages are those of outages of what handlers need.
var defectsOfOutages = []defect{
	{
		name:   "an outage does not give attempts back",
		undoes: "69816c7",
		shows:  "a payment that does not fail has a dead letter",
		test:   "idem TestLastAttemptIsGivenBackDuringAnOutage",
		changes: []replacement{{
			executionFile, "x.refund(x.claim.failure(Unavailable(err)), classOf(err).delay)",
			"x.release(failureOf(err), classOf(err).delay, false)",
		}},
	}, {
		name:   "a key is a sign of an outage again and again",
		undoes: "cf21b46",
		shows:  "a record that always fails looks like an outage, and never has a dead letter",
		test:   "idem TestKeyIsASignOfAnOutageOnce",
		changes: []replacement{{outageFile, "(o.since.IsZero() && (before || attempt > 1))",
			"(o.since.IsZero() && before && attempt < 0)"}},
	}, {
		name:   "a success does not end an outage",
		undoes: "69816c7",
		shows:  "records wait though what the handler needs is up",
		test:   "idem TestOneTaskTriesTheHandlerDuringAnOutage",
		changes: []replacement{{
			outageFile,
			"\tdelete(o.known, key)\n\to.failed, o.last",
			"\tif !o.since.IsZero() {\n\t\to.trying = \"\"\n\t\to.schedule(time.Now())\n\t\treturn\n\t}\n\to.failed, o.last",
		}},
	}, {
		name:   "failures with successes between them are an outage",
		undoes: "69816c7",
		shows:  "records that always fail look like an outage, and never have a dead letter",
		test:   "idem TestFailuresThatAreNoOutage",
		changes: []replacement{{
			outageFile,
			"o.failed, o.last, o.since, o.trying = o.failed[:0], nil, time.Time{}, \"\"",
			"o.since, o.trying = time.Time{}, \"\"",
		}},
	}, {
		name:   "all tasks try the handler during an outage",
		undoes: "69816c7",
		shows:  "more than one payment is handled at a time during an outage",
		test:   "idem TestOneTaskTriesTheHandlerDuringAnOutage",
		changes: []replacement{{
			outageFile,
			"o.trying, o.lapses = key, now.Add(max(o.lease, o.pause))",
			"o.lapses = now.Add(max(o.lease, o.pause))",
		}},
	}, {
		name:    "a bad record takes each try during an outage",
		undoes:  "cf21b46",
		shows:   "records wait longer than the pauses of an outage",
		test:    "idem TestKeysThatFailedWaitLongerDuringAnOutage",
		not:     onlyWaits,
		changes: []replacement{{outageFile, "o.next.Add(o.turn(key)).Sub(now)", "o.next.Sub(now)"}},
	}, {
		name:    "an outage has no limit",
		undoes:  "69816c7: IDEMSK_OUTAGE_LIMIT",
		shows:   "records that always fail never have a dead letter",
		test:    "idem TestOutageLimit",
		changes: []replacement{{outageFile, "(o.limit == 0 || now.Sub(o.since) < o.limit)", "o.limit >= 0"}},
	}, {
		name:   "permanent errors are an outage",
		undoes: "69816c7",
		shows:  "a permanent failure has no dead letter, and its attempts are given back",
		test:   "idem TestPermanentErrorsCountDuringAnOutage",
		changes: []replacement{{executionFile, "case x.claim.Together, c == permanent, c == callFailed:",
			"case x.claim.Together, c == callFailed:"}},
	}, {
		name:   "errors beside a success of the same call are an outage",
		undoes: "69816c7",
		shows:  "records that always fail never have a dead letter",
		test:   "idem/schedule TestErrorsBesideASuccessAreNoOutage",
		changes: []replacement{{executionFile, "case x.claim.Together, c == permanent,",
			"case c == permanent,"}},
	}, {
		name:   "a cancelled handler is a sign of an outage",
		undoes: "69816c7",
		shows:  "an outage after a deployment",
		test:   "idem TestCancelledHandlerIsNoSignOfAnOutage",
		not:    "its process ends, and with it what it knows of an outage",
		changes: []replacement{{
			executionFile,
			"\tif interrupted(x.session.handlers, err) {",
			"\t_, _ = x.duringOutage(err)\n\tif interrupted(x.session.handlers, err) {",
		}},
	}, {
		name:    "a rejected record waits for the end of an outage",
		undoes:  "69816c7",
		shows:   "a record without a key has no dead letter during an outage",
		test:    "idem TestRejectedTaskIsNotHeldBack",
		not:     onlyWaits,
		changes: []replacement{{outageFile, "o.quiet() || claim.Task.Rejected {", "o.quiet() {"}},
	}, {
		name:   "an outage lets a record that failed in a call be handled with others again",
		undoes: "4536a76",
		shows:  "a payment has its effect twice beside a bad record",
		test:   "idem/schedule TestOutagesMakeNoDeadLetters|TestBadItemsOfCallsCostThemselvesOnly",
		changes: []replacement{{
			taskFile,
			"if f.Code == store.CodeUnavailable && (claim.Again || claim.FailedBefore()) {",
			"if claim.Again && claim.FailedBefore() && f.Code == \"\" {",
		}},
	}, {
		name:   "what an outage has held back waits for the next delivery",
		undoes: "2eac541",
		shows:  "a record waits longer than the outage",
		test:   "idem/schedule TestItemsAreHandledInTheInvocationInWhichAnOutageEnds",
		not:    onlyWaits,
		changes: []replacement{{concludeFile, "case m.once && it.heldBack():",
			"case m.once && it.heldBack() && it.lane == nil:"}},
	},
}
