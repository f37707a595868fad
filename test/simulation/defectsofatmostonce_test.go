package simulation_test

const atMostOnceFile = "idem/atmostonce.go"

// defectsOfAtMostOnce are those of IDEMSK_EFFECTS=at-most-once.
var defectsOfAtMostOnce = []defect{
	{
		name:    "a record that is not identified releases a key whose attempt did not end",
		undoes:  "docs/design.md, at-most-once",
		shows:   "a handler is called again after an attempt that did not end",
		test:    "idem TestRejectedTaskLeavesAnAttemptThatDidNotEnd",
		config:  "host=process,keyless=yes,registry=silent,IDEMSK_MISSING_KEY=process,IDEMSK_EFFECTS=at-most-once",
		changes: []replacement{{settleFile, "if x.session.engine.takesUnended(x.claim) {", "if false {"}},
	}, {
		name:   "an attempt that did not end is repeated",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler is called again after its process died",
		test:   "idem TestAttemptThatDidNotEnd|TestTakeOverThatTheStoreRecognises",
		changes: []replacement{{atMostOnceFile, "return e.cfg.AtMostOnce && claim.hold.takesOver &&",
			"return e.cfg.AtMostOnce && claim.hold.takesOver && claim.Task.DeadLetters == nil &&"}},
	}, {
		name:   "only the reply to a take-over tells that an attempt did not end",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler is called again after the reply to a take-over was lost",
		test:   "idem TestTakeOverThatTheStoreRecognises",
		config: "IDEMSK_EFFECTS=at-most-once",
		changes: []replacement{{atMostOnceFile, "return e.cfg.AtMostOnce && claim.hold.takesOver &&",
			"return e.cfg.AtMostOnce && claim.hold.takesOver && claim.res.Stolen &&"}},
	}, {
		name:   "a handler that was cancelled is called again",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler that a deadline ended is called again",
		test:   "idem TestHandlerThatIsEndedMayHaveHadItsEffect|TestErrorsThatMayHideAnEffect",
		not:    "a cancelled handler of a run returns the error of its context",
		changes: []replacement{{atMostOnceFile, "return handlers.Err() != nil || errors.As(err, &panicked)",
			"return handlers.Err() == nil && errors.As(err, &panicked)"}},
	}, {
		name:   "a panic is an ordinary error",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler that panicked is called again",
		test:   "idem TestPanicMayHideAnEffect",
		changes: []replacement{{atMostOnceFile, "handlers.Err() != nil || errors.As(err, &panicked) ||",
			"handlers.Err() != nil || errors.As(err, &panicked) && handlers == nil ||"}},
	}, {
		name:   "a key whose lease was lost is released",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler that lost its lease is called again",
		test:   "idem TestHandlerThatIsEndedMayHaveHadItsEffect",
		config: "IDEMSK_EFFECTS=at-most-once,slow records=yes",
		changes: []replacement{{executionFile, "\tif x.atMostOnce() {\n\t\tx.keep(err)",
			"\tif x.atMostOnce() && claim == nil {\n\t\tx.keep(err)"}},
	}, {
		name:   "a key whose dead letter could not be sent is released",
		undoes: "docs/design.md, at-most-once",
		shows:  "a handler is called again after a full queue",
		test:   "idem TestAttemptThatDidNotEnd",
		config: "letters=slow queue,slow records=yes,IDEMSK_EFFECTS=at-most-once",
		changes: []replacement{{executionFile, "if isOutcome(cause) {",
			"if isOutcome(cause) && x.claim == nil {"}},
	}, {
		name:   "the records of a call that failed as a whole are handled alone",
		undoes: "docs/design.md, at-most-once",
		shows:  "a record that had its effect in a call is handled again",
		test:   "idem/schedule TestItemsOfAFailedCallAreHandledAtMostOnce",
		changes: []replacement{{bulkFile, "if !c.driver.scheduler.engine.Config().AtMostOnce {",
			"if c.driver.scheduler.engine.Config().MaxAttempts > 0 {"}},
	}, {
		name:   "keys are claimed ahead in at-most-once mode",
		undoes: "docs/design.md, at-most-once",
		shows:  "a record that did not begin has a dead letter of an unknown outcome",
		test:   "lambda/msk TestRecordsOfADeadProcessAreHandledAtMostOnce",
		not:    "it costs dead letters only",
		changes: []replacement{{"idem/engine.go", "e.cfg.MaxAttempts == 1 || e.cfg.AtMostOnce {",
			"e.cfg.MaxAttempts == 1 {"}},
	},
}
