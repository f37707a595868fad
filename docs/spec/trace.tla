------------------------------- MODULE trace -------------------------------
(* Does the model explain what a store was observed to do?  Traces, a module *)
(* that scripts/trace.sh writes, is a sequence of traces: what a recorder    *)
(* (internal/trace/keytrace) saw of one key.  A call begins, takes effect by      *)
(* a step of idem.tla at one moment, and ends.  When it takes effect was not *)
(* recorded, nor the end of leases, expiry and TTL; they are bounded by the   *)
(* recorded times.  configs is the set of all states in which the store can  *)
(* be.  If it is empty, the trace contradicts the model.  Each call without   *)
(* an answer can double them: beyond Limit the trace is not decided.          *)
EXTENDS Integers, Sequences, FiniteSets, Traces

CONSTANTS
  Workers, Records, Mismatch, Spare, MaxAttempts, MaxFault, MaxUnrun, MaxLost, MaxLate, MaxExt, MaxExpire, MaxRedrive,
  MaxDeliv, StealCond, OwnerInCond, Recognise, Skew, Observer, StartedTTL, StartedLogical, FreshVersion, ReleaseMark, Refund,
  Redrives, RetentionCovers, Zombies

VARIABLES
  t, i,     \* the trace, and how many of its events were seen
  open,     \* the calls that have begun and not ended
  decided,  \* FALSE after there were too many states
  configs   \* [it: the item as in idem.tla, until: when its lease or delay ends, exp: its expiry, tok: the largest token,
            \*  done: the calls of open that took effect]

(* The operators of the model that are used have no variable but maxTok. *)
Model(maxTok) == INSTANCE idem WITH item <- 0, w <- 0, rec <- 0, net <- 0, dl <- 0, dlSent <- 0, comps <- 0, everC <- 0, bad <- 0, execs <- 0, n <- 0

Trace  == Traces[t]
Absent == Model(0)!Absent
Owner(number) == IF number = 0 THEN Absent.own ELSE <<"owner", number>>
Max(a, b) == IF a > b THEN a ELSE b

Limit  == 2000

Init == /\ t \in DOMAIN Traces /\ i = 0 /\ open = {} /\ decided = TRUE
        /\ configs = {[it |-> Absent, until |-> <<0, 0>>, exp |-> <<0, 0>>, tok |-> 0, done |-> {}]}

----------------------------------------------------------------------------
(* Times are intervals <<from, to>>, because neither the moment of a call's  *)
(* effect nor the store's clock is known exactly.                            *)
Window(e, now)  == <<e.at - Trace.tolerance, now + Trace.tolerance>>
In(win, d)      == <<win[1] + d, win[2] + d>>
Later(x, y)     == <<Max(x[1], y[1]), Max(x[2], y[2])>>
Second(ms)      == ((ms + Trace.phase + 999) \div 1000) * 1000 - Trace.phase    \* expiry has whole seconds
Rounded(x)      == <<Second(x[1]), Second(x[2])>>
Holds(x, ms)    == x[1] <= ms /\ ms <= x[2]
MayBeOver(x, win)    == win[2] >= x[1]
MayNotBeOver(x, win) == win[1] < x[2]
Skewed(x) == In(x, Trace.skew)

(* The effects that a call may have on a state: what it returns, and the state after it. *)
Same(c, answer) == {[answer |-> answer, seen |-> c.it, c |-> c]}
Differ(a, b)    == a # b /\ a # 0 /\ b # 0                   \* fingerprints; 0 is not compared

Tokens == {e.gotVer : e \in {Trace.events[k] : k \in DOMAIN Trace.events}}

Put(c, e, win) ==
  LET m == [op |-> "put", own |-> Owner(e.own), fp |-> e.fp]
      hold == In(win, e.lease)
  IN {[answer |-> "claimed", seen |-> it, c |-> [c EXCEPT !.it = it, !.until = hold, !.exp = Rounded(In(hold, e.retention)), !.tok = it.ver]] :
        it \in {[Model(c.tok)!New(m, c.it) EXCEPT !.ver = v] :
                  v \in {x \in (IF e.answer = "claimed" THEN {e.gotVer} ELSE Tokens) : x > c.tok /\ Holds(In(win, Trace.epoch), x)}}}

(* The entry is as it was read when it is overwritten. *)
Take(c, e, win, exp) ==
  LET seen == [c.it EXCEPT !.over = @ \/ c.it.st = "S", !.exp = exp]
      m == [op |-> "steal", own |-> Owner(e.own), seen |-> seen, hdr |-> e.redrive,
            fp |-> IF e.fp = 0 /\ seen.st = "S" THEN seen.fp ELSE e.fp]
      it == Model(c.tok)!New(m, seen)
      hold == In(win, e.lease)
  IN IF Model(c.tok)!OK(m, seen) /\ Model(c.tok)!BadOf(m, seen) = {}
     THEN {[answer |-> IF seen.st = "S" /\ ~seen.rel THEN "stolen" ELSE "claimed", seen |-> it,
            c |-> [c EXCEPT !.it = it, !.until = hold, !.exp = Rounded(In(hold, e.retention)), !.tok = Max(@, it.ver)]]}
     ELSE {}

Claim(c, e, win) ==
  (IF e.answer = "inFlight" /\ \E o \in open : o.id # e.id THEN Same(c, "inFlight") ELSE {}) \cup
  IF c.it.st = "A" THEN Put(c, e, win)
  ELSE IF c.it.st = "S" /\ e.own # 0 /\ c.it.own = Owner(e.own) /\ ~c.it.rel THEN Same(c, "claimed")           \* rule 5
  ELSE IF c.it.st = "S" THEN
    IF Differ(c.it.fp, e.fp) THEN Same(c, "mismatch")
    ELSE LET until == IF c.it.rel THEN c.until ELSE Skewed(c.until)
         IN (IF MayNotBeOver(until, win) THEN Same(c, "inFlight") ELSE {}) \cup
            (IF ~MayBeOver(until, win) THEN {}
             ELSE IF c.it.rel \/ e.takeOver THEN Take(c, e, win, FALSE) ELSE Same(c, "leaseOver"))
  ELSE (IF MayBeOver(Skewed(c.exp), win) THEN Take(c, e, win, TRUE) ELSE {}) \cup
       (IF ~MayNotBeOver(Skewed(c.exp), win) THEN {}
        ELSE IF Differ(c.it.fp, e.fp) THEN Same(c, "mismatch")
        ELSE IF Model(c.tok)!Opens(c.it, e.redrive) THEN Take(c, e, win, FALSE)
        ELSE Same(c, IF c.it.st = "C" THEN "completed" ELSE "failed"))

Own(e, it) == /\ e.op # "extend"
              /\ it.own = Owner(e.own) /\ it.ver = e.ver
              /\ it.st = (CASE e.op = "complete" -> "C" [] e.op = "fail" -> "F" [] OTHER -> "S")
              /\ e.op \in {"release", "unrun"} => it.rel

SettleAs(c, e, win) ==
  LET m == [op |-> e.op, own |-> Owner(e.own), ver |-> e.ver]
      it == Model(c.tok)!New(m, c.it)
      until == CASE e.op = "extend" -> Later(c.until, In(win, e.lease))
                 [] e.op \in {"release", "unrun"} -> In(win, e.delay)
                 [] OTHER -> win
      exp == IF e.op = "extend" THEN Later(c.exp, Rounded(In(until, e.retention))) ELSE Rounded(In(until, e.retention))
  IN (IF e.answer \in {"rejected", "contended"} THEN Same(c, e.answer) ELSE {}) \cup
     (IF c.it.st # "A" /\ Model(c.tok)!OK(m, c.it)
      THEN IF Model(c.tok)!BadOf(m, c.it) = {}
           THEN {[answer |-> "ok", seen |-> it, c |-> [c EXCEPT !.it = it, !.until = until, !.exp = exp]]} ELSE {}
      ELSE IF Own(e, c.it) THEN Same(c, "ok") ELSE Same(c, "fenced"))

(* After a lost reply to a transaction the store releases the key, which waits for the COMMIT, and then looks. *)
Settle(c, e, win) ==
  SettleAs(c, e, win) \cup
  (IF e.tx /\ e.op = "complete"
   THEN {[x EXCEPT !.answer = "fenced"] : x \in {y \in SettleAs(c, [e EXCEPT !.op = "release"], win) : y.answer = "ok"}} ELSE {})

(* An operator's delete admits a second owner, whose token may be the same. *)
Delete(c, e) == IF c.it.st = "A" THEN Same(c, "absent")
                ELSE IF c.it.ver # e.ver THEN Same(c, "fenced")
                ELSE {[answer |-> "ok", seen |-> Absent, c |-> [c EXCEPT !.it = Absent, !.tok = 0]]}

Effects(c, e, win) ==
  CASE e.op = "claim"  -> Claim(c, e, win)
    [] e.op = "get"    -> Same(c, IF c.it.st = "A" THEN "absent" ELSE "found")
    [] e.op = "delete" -> Delete(c, e)
    [] OTHER           -> Settle(c, e, win)

(* A store may say that a key is in flight while there is another call for it.  A steal that is sent again finds itself. *)
Answered(e, x) ==
  \/ e.answer = "unknown"
  \/ /\ e.answer = x.answer \/ (e.answer = "claimed" /\ x.answer = "stolen")
     /\ e.got => [st |-> e.gotSt, ver |-> e.gotVer, own |-> Owner(e.gotOwn), att |-> e.gotAtt, fp |-> e.gotFp, rel |-> e.gotRel]
                = [st |-> x.seen.st, ver |-> x.seen.ver, own |-> x.seen.own, att |-> x.seen.att, fp |-> x.seen.fp, rel |-> x.seen.rel]
     /\ e.got /\ e.gotSt = "S" => Holds(x.c.until, e.gotUntil)
     /\ e.got /\ e.gotSt # "A" => Holds(x.c.exp, e.gotExp)

(* TTL may have deleted an entry whose expiry may be over. *)
Swept(c, win) == {c} \cup (IF c.it.st # "A" /\ MayBeOver(c.exp, win) THEN {[c EXCEPT !.it = Absent]} ELSE {})

Lands(c, e, now) ==
  LET win == Window(e, now)
  IN UNION {{[x.c EXCEPT !.done = @ \cup {e.id}] : x \in {y \in Effects(d, e, win) : Answered(e, y)}} : d \in Swept(c, win)}

(* Calls that change nothing take effect as early as they can, which leaves all other orders possible. *)
Changes(e) == e.answer \in {"claimed", "stolen", "ok", "unknown"} /\ e.op # "get"
Read(c, now) ==
  LET ready == {e \in open : ~Changes(e) /\ e.id \notin c.done /\
                  \E y \in Effects(c, e, Window(e, now)) : y.c = c /\ Answered(e, y)}
  IN IF ready = {} THEN c ELSE [c EXCEPT !.done = @ \cup {e.id : e \in ready}]

RECURSIVE Close(_, _)
Close(C, now) ==
  LET R == {Read(c, now) : c \in C}
      D == R \cup UNION {UNION {Lands(c, e, now) : e \in {o \in open : o.id \notin c.done}} : c \in R}
  IN IF D = C \/ Cardinality(D) > Limit THEN D ELSE Close(D, now)

----------------------------------------------------------------------------
Next ==
  /\ i < Len(Trace.events) /\ configs # {} /\ decided
  /\ i' = i + 1 /\ t' = t
  /\ LET e == Trace.events[i + 1]
     IN IF e.begin
        THEN open' = open \cup {e} /\ UNCHANGED <<configs, decided>>
        ELSE LET all == Close(configs, e.at)
             IN /\ open' = {o \in open : o.id # e.id}
                /\ decided' = (Cardinality(all) <= Limit)
                /\ configs' = IF decided' THEN {[c EXCEPT !.done = @ \ {e.id}] : c \in {d \in all : e.id \in d.done}} ELSE configs

Spec == Init /\ [][Next]_<<t, i, open, decided, configs>>

Decided   == decided
Explained == configs # {}
=============================================================================
