--------------------------- MODULE tracepartition ---------------------------
(* Is what owners of partitions were observed to do what partition.tla allows? *)
(* Traces, a module that scripts/trace.sh writes, is a sequence of traces: the *)
(* requests of invocations and of consumer processes, what the store answered, *)
(* the calls of handlers, and the ends of leases, in the order in which they   *)
(* took effect (idem/schedule/rangetrace_test.go).  The conditions and changes of *)
(* requests, and the decision to run a record without a claim, are the         *)
(* operators of the model.  Its worker takes one record after another; here    *)
(* records may be handled in any order.  ok is FALSE after an event that can't *)
(* be explained.                                                               *)
EXTENDS Naturals, Sequences, FiniteSets, Traces

CONSTANTS Workers, KeyWorkers, Shape, MaxAttempts, MaxFault, MaxLost, MaxLate, MaxExt, MaxDup, MaxRewind, MaxRecreate, MaxToken,
  Cuts, MaxPause, ReadAfter, Isolate, KeepTill, IfAbsent, ReleaseUnknown, ReleaseMark, LeaseToken, InLease, Reserve, Higher

VARIABLES
  t, i, ok,
  key, part,  \* as in the model
  inv,        \* what each invocation knows, see New
  dl, high    \* the keys of the dead letters, and the highest token of each key

Trace   == Traces[t]
Batch   == INSTANCE partition WITH Stream <- FALSE, w <- 0, esm <- 0, net <- 0, n <- 0, ever <- 0, bad <- 0, runs <- 0, last <- 0, now <- 0
Process == INSTANCE partition WITH Stream <- TRUE, w <- 0, esm <- 0, net <- 0, n <- 0, ever <- 0, bad <- 0, runs <- 0, last <- 0, now <- 0

Owner(number) == <<"owner", number>>
K(e) == Batch!Log(inv[e.inv].p, inv[e.inv].inc)[e.i]
Final(a) == key[a].st \in {"C", "F"}

New(e) == [p |-> e.p, inc |-> e.inc, from |-> e.from, to |-> e.to,
           own |-> Batch!NoOwn, tok |-> 0, till |-> 0, end |-> 0, held |-> FALSE,  \* of its last lease
           tokens |-> {},      \* those of its leases
           view |-> <<>>,      \* by record: the status that was read under the last lease
           clk |-> <<>>,       \* by record: the token that the store gave then, or 0
           claim |-> <<>>,     \* by record: the claim of its key
           ran |-> {},         \* the records that ran without a claim, each with the token of the lease and its own
           open |-> {},        \* those of them whose keys may have no entry, each with the token of the lease
           done |-> {}, failed |-> {}]  \* records whose handler has returned, and not been settled since

Init == /\ t \in DOMAIN Traces /\ i = 0 /\ ok = TRUE /\ dl = {}
        /\ key = [a \in Batch!Keys |-> Batch!Absent] /\ part = [p \in Batch!Parts |-> Batch!NoLease]
        /\ inv = <<>> /\ high = [a \in Batch!Keys |-> 0]

With(f, x, y) == [z \in DOMAIN f \cup {x} |-> IF z = x THEN y ELSE f[z]]
Learn(e, r)   == inv' = IF e.lost THEN inv ELSE With(inv, e.inv, r)
Keep          == UNCHANGED <<dl, high>>

----------------------------------------------------------------------------
(* The lease *)
Seen(l) == [own |-> l.own, tok |-> l.tok, rel |-> l.rel, till |-> l.till, end |-> l.end]
Got(e)  == [own |-> Owner(e.gotOwn), tok |-> e.gotTok, rel |-> e.gotRel, till |-> e.gotTill, end |-> e.gotEnd]

OfLease(e, op, r) == [op |-> op, own |-> Owner(e.own), p |-> r.p, tok |-> e.tok, seen |-> part[r.p], from |-> e.end, to |-> e.end, i |-> e.end]

Took(e, l) ==
  LET r == inv[e.inv] IN
  /\ Seen(l) = Got(e) /\ part' = [part EXCEPT ![r.p] = l] /\ UNCHANGED key /\ Keep
  /\ Learn(e, [r EXCEPT !.own = l.own, !.tok = l.tok, !.till = l.till, !.end = l.end, !.held = TRUE, !.tokens = @ \cup {<<l.own, l.tok>>}, !.view = <<>>, !.clk = <<>>])

Take(e) ==
  LET l == part[inv[e.inv].p]
      m == OfLease(e, "take", inv[e.inv])
  IN /\ ~Trace.stream => e.end = inv[e.inv].to
     /\ CASE Batch!Own(m) /\ ~l.rel -> e.answer = "claimed" /\ Took(e, l)
       [] ~Batch!Own(m) /\ (l.rel \/ l.over) ->
            e.answer = "claimed" /\ Batch!OK(m) /\ e.gotTok > l.tok /\ Took(e, [Batch!NewLease(m) EXCEPT !.tok = e.gotTok])
       [] OTHER -> e.answer = "inFlight" /\ UNCHANGED <<key, part, inv>> /\ Keep

Lease(e) ==
  LET r == inv[e.inv]
      m == OfLease(e, e.op, r)
  IN /\ <<Owner(e.own), e.tok>> \in r.tokens /\ UNCHANGED key /\ Keep
     /\ IF Batch!OK(m)
        THEN /\ e.answer = "ok"
             /\ e.op = "free" => ~\E o \in r.open : o[2] = e.tok     \* each record that ran has an entry
             /\ part' = [part EXCEPT ![r.p] = Batch!NewLease(m)]
             /\ Seen(part'[r.p]) = Got(e)
        ELSE e.answer = (IF e.op = "free" /\ Batch!Own(m) THEN "ok" ELSE "fenced") /\ UNCHANGED part
     /\ Learn(e, CASE e.op = "free" -> [r EXCEPT !.held = @ /\ e.tok # r.tok]
                   [] e.op = "reserve" /\ e.answer = "ok" -> [r EXCEPT !.end = e.end]
                   [] OTHER -> r)

----------------------------------------------------------------------------
(* The keys *)
Look(e) ==
  /\ inv[e.inv].held /\ e.answer = key[K(e)].st /\ UNCHANGED <<key, part>> /\ Keep
  /\ Learn(e, [inv[e.inv] EXCEPT !.view = With(@, e.i, e.answer), !.clk = With(@, e.i, e.tok)])

Entry(it)  == [st |-> it.st, own |-> it.own, ver |-> it.ver, att |-> IF it.st = "S" THEN it.att ELSE 0, rel |-> it.rel]
GotKey(e)  == [st |-> e.gotSt, own |-> Owner(e.gotOwn), ver |-> e.gotTok, att |-> IF e.gotSt = "S" THEN e.gotAtt ELSE 0, rel |-> e.gotRel]
Put(e, it) == /\ Entry(it) = GotKey(e) /\ key' = [key EXCEPT ![K(e)] = it] /\ high' = [high EXCEPT ![K(e)] = Batch!Max(@, it.ver)] /\ UNCHANGED <<part, dl>>

(* The token of a claim under a lease is no smaller than that of the lease, and greater than that with which the record has run. *)
Fresh(e, r) == IF ~r.held THEN e.gotTok > high[K(e)]
               ELSE (\E l \in r.tokens : e.gotTok >= l[2]) /\ \A o \in r.ran : o[1] = e.i => e.gotTok > o[3]

Closed(open, e) == {o \in open : o[1] # e.i}

Claim(e) ==
  LET r == inv[e.inv]
      it == key[K(e)]
      m == [op |-> IF it.st = "A" THEN "put" ELSE "steal", own |-> Owner(e.own), a |-> K(e), kseen |-> it, fresh |-> e.gotTok]
      got == [r EXCEPT !.claim = With(@, e.i, [own |-> e.own, tok |-> e.gotTok, att |-> e.gotAtt]), !.open = Closed(@, e)]
      takes == e.answer = "claimed" /\ Batch!OK(m) /\ Put(e, Batch!NewKey(m)) /\ Learn(e, got)
  IN CASE it.st = "A" -> Fresh(e, r) /\ takes
       [] Final(K(e)) -> e.answer = it.st /\ Put(e, it) /\ Learn(e, [r EXCEPT !.open = Closed(@, e)])
       [] Batch!Own(m) -> e.answer = "claimed" /\ Put(e, it) /\ Learn(e, got)
       [] it.rel -> takes \/ (e.answer = "inFlight" /\ Put(e, it) /\ Learn(e, [r EXCEPT !.open = Closed(@, e)]))   \* the delay of a release
       [] it.over -> takes \/ (e.answer = "leaseOver" /\ Put(e, it) /\ Learn(e, [r EXCEPT !.open = Closed(@, e)]))   \* it is claimed in isolation
       [] OTHER -> e.answer = "inFlight" /\ Put(e, it) /\ Learn(e, [r EXCEPT !.open = Closed(@, e)])

Run(e) ==
  LET r == inv[e.inv]
      begin == [p |-> r.p, inc |-> r.inc, i |-> e.i, to |-> e.i, tok |-> r.tok, till |-> r.till, end |-> r.end, clk |-> e.tok,
                view |-> [a \in Batch!Keys |-> IF a = K(e) THEN r.view[e.i] ELSE "A"], pc |-> "", by |-> "", ver |-> 0, att |-> 0]
  IN /\ UNCHANGED <<key, part>> /\ Keep
     /\ IF e.i \in DOMAIN r.claim
        THEN e.tok = r.claim[e.i].tok /\ e.att = r.claim[e.i].att /\ inv' = inv
        ELSE /\ r.held /\ e.i \in DOMAIN r.view /\ ~\E o \in r.ran : o[1] = e.i /\ o[2] = r.tok
             /\ e.tok >= r.tok /\ e.tok <= Batch!Max(r.tok, r.clk[e.i])     \* the end of the lease may be before the time of the read
             /\ LET next == IF Trace.stream THEN Process!Begin("", begin) ELSE Batch!Begin("", begin)
                IN next.pc = "run" /\ e.tok = next.ver /\ e.att = next.att
             /\ inv' = [inv EXCEPT ![e.inv].ran = @ \cup {<<e.i, r.tok, e.tok>>}, ![e.inv].open = @ \cup {<<e.i, r.tok>>}]

Return(e) == /\ UNCHANGED <<key, part>> /\ Keep
             /\ inv' = [inv EXCEPT ![e.inv].done = IF e.answer = "ok" THEN @ \cup {e.i} ELSE @ \ {e.i},
                                   ![e.inv].failed = IF e.answer = "ok" THEN @ \ {e.i} ELSE @ \cup {e.i}]

Settle(e) ==
  LET r == inv[e.inv]
      m == [op |-> IF e.op = "refund" THEN "retry" ELSE e.op, own |-> Owner(e.own), a |-> K(e), by |-> e.by, ver |-> e.tok, tok |-> e.tok]
      it == [Batch!NewKey(m) EXCEPT !.att = IF e.op = "refund" THEN @ - 1 ELSE @]
  IN /\ e.by = "lease" => \E o \in r.ran : o[1] = e.i /\ o[3] = e.tok /\ <<Owner(e.own), o[2]>> \in r.tokens
     /\ e.by = "key" => e.i \in DOMAIN r.claim /\ e.own = r.claim[e.i].own /\ e.tok = r.claim[e.i].tok
     /\ e.op = "complete" => e.i \in r.done
     /\ e.op = "retry" => e.i \in r.failed
     /\ e.op = "failed" => K(e) \in dl
     /\ IF Batch!OK(m) THEN e.answer = "ok" /\ Put(e, it)
        ELSE e.answer = (IF Batch!Own(m) THEN "ok" ELSE "fenced") /\ Put(e, key[K(e)])
     /\ Learn(e, [r EXCEPT !.open = Closed(@, e)])

Extend(e) ==
  LET held == Batch!Holds([a |-> K(e), own |-> Owner(e.own), ver |-> e.tok])
  IN /\ e.answer = (IF held THEN "ok" ELSE "fenced") /\ Put(e, IF held THEN [key[K(e)] EXCEPT !.over = FALSE] ELSE key[K(e)]) /\ UNCHANGED inv

Over(e) == /\ Keep /\ UNCHANGED inv
           /\ IF e.p # "" THEN part' = [part EXCEPT ![e.p].over = TRUE] /\ UNCHANGED key
              ELSE key' = [key EXCEPT ![e.a].over = TRUE] /\ UNCHANGED part

----------------------------------------------------------------------------
Observed(e) ==
  CASE e.op = "begin"  -> inv' = With(inv, e.inv, New(e)) /\ UNCHANGED <<key, part>> /\ Keep
    [] e.op = "over"   -> Over(e)
    [] e.op = "take"   -> Take(e)
    [] e.op \in {"lease", "reserve", "free"} -> Lease([e EXCEPT !.op = IF @ = "lease" THEN "extend" ELSE @])
    [] e.op = "look"   -> Look(e)
    [] e.op = "claim"  -> Claim(e)
    [] e.op = "run"    -> Run(e)
    [] e.op = "return" -> Return(e)
    [] e.op = "letter" -> dl' = dl \cup {K(e)} /\ UNCHANGED <<key, part, inv, high>>
    [] e.op = "extend" -> Extend(e)
    [] e.op = "settled" -> Final(K(e)) /\ UNCHANGED <<key, part, inv>> /\ Keep     \* the event source, or the group, is told so
    [] OTHER           -> Settle(e)

Next == /\ ok /\ i < Len(Trace.events)
        /\ i' = i + 1 /\ t' = t
        /\ LET e == Trace.events[i + 1]
           IN IF ENABLED Observed(e) THEN Observed(e) /\ ok' = TRUE ELSE ok' = FALSE /\ UNCHANGED <<key, part, inv, dl, high>>

Spec == Init /\ [][Next]_<<t, i, ok, key, part, inv, dl, high>>

Explained == ok
=============================================================================
