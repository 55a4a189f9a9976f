package history

import (
	"fmt"
	"strings"
)

// Levels is a set of the levels that transactions can ask for.
type Levels uint8

// The levels of the cases.
const (
	Serializable Levels = 1 << iota // the commit checks what was read
	Snapshot                        // the commit checks what was written
	LastWins                        // the commit checks nothing
	AllLevels    = Serializable | Snapshot | LastWins
)

// Verb is what a step does.
type Verb uint8

// The verbs. A transaction begins with its first step. It reads from its snapshot of
// that moment, with its own writes. Only Commit can be refused.
const (
	Begin    Verb = iota // begins the transaction, and does nothing else
	Get                  // Key; Want is the value, "" = absent
	Scan                 // the keys from Key up to but without Value ("" = all); Want is "key=value key=value"
	Set                  // Key to Value
	Delete               // Key
	Commit               // refused with a conflict at the levels in Refused
	Rollback             // never fails
)

// Step is one operation of the transaction Txn. Each step of transaction 0 is a new
// transaction: it shows what is committed.
type Step struct {
	Txn        int
	Do         Verb
	Key, Value string
	Want       string
	Refused    Levels
	At         Levels // the step is left out at other levels; 0 = all
}

// Case is one interleaving and its results. All its transactions but 0 have the same
// level. Before the first step the store holds 1=10 and 2=20.
type Case struct {
	Name  string
	Steps []Step
}

// Cases are those of Kleppmann's Hermitage (2014), for a store that never blocks and
// refuses at commit, and some about ranges, absent keys and deletes.
var Cases = []Case{
	{"G0 dirty write", []Step{
		set(1, "1", "11"), set(2, "1", "12"), set(1, "2", "21"), commit(1),
		scan(0, "1=11 2=21"),
		set(2, "2", "22"), refused(2, Snapshot),
		scan(0, "1=12 2=22").at(Serializable | LastWins), scan(0, "1=11 2=21").at(Snapshot),
	}},
	{"G1a aborted read", []Step{
		set(1, "1", "101"), scan(2, "1=10 2=20"), rollback(1),
		scan(2, "1=10 2=20"), commit(2), scan(0, "1=10 2=20"),
	}},
	{"G1b intermediate read", []Step{
		set(1, "1", "101"), scan(2, "1=10 2=20"), set(1, "1", "11"), commit(1),
		scan(2, "1=10 2=20"), commit(2), scan(0, "1=11 2=20"),
	}},
	{"G1c circular information flow", []Step{
		set(1, "1", "11"), set(2, "2", "22"), get(1, "2", "20"), get(2, "1", "10"),
		commit(1), refused(2, Serializable),
		scan(0, "1=11 2=20").at(Serializable), scan(0, "1=11 2=22").at(Snapshot | LastWins),
	}},
	{"OTV observed transaction vanishes", []Step{
		set(1, "1", "11"), set(1, "2", "19"), set(2, "1", "12"), commit(1),
		get(3, "1", "11"), set(2, "2", "18"), get(3, "2", "19"), refused(2, Snapshot),
		get(3, "2", "19"), get(3, "1", "11"), commit(3),
		scan(0, "1=12 2=18").at(Serializable | LastWins), scan(0, "1=11 2=19").at(Snapshot),
	}},
	{"PMP predicate many preceders", []Step{
		scan(1, "1=10 2=20"), set(2, "3", "30"), commit(2),
		scan(1, "1=10 2=20"), commit(1), scan(0, "1=10 2=20 3=30"),
	}},
	{"PMP for writes", []Step{
		scan(1, "1=10 2=20"), set(1, "1", "20"), set(1, "2", "30"),
		scan(2, "1=10 2=20"), del(2, "2"), commit(1), refused(2, Serializable|Snapshot),
		scan(0, "1=20 2=30").at(Serializable | Snapshot), scan(0, "1=20").at(LastWins),
	}},
	{"P4 lost update", []Step{
		get(1, "1", "10"), get(2, "1", "10"), set(1, "1", "11"), set(2, "1", "12"),
		commit(1), refused(2, Serializable|Snapshot),
		get(0, "1", "11").at(Serializable | Snapshot), get(0, "1", "12").at(LastWins),
	}},
	{"P4 lost update by the first to begin", []Step{
		get(1, "1", "10"), get(2, "1", "10"), set(1, "1", "11"), set(2, "1", "12"),
		commit(2), refused(1, Serializable|Snapshot),
		get(0, "1", "12").at(Serializable | Snapshot), get(0, "1", "11").at(LastWins),
	}},
	{"G-single read skew", []Step{
		get(1, "1", "10"), get(2, "1", "10"), get(2, "2", "20"), set(2, "1", "12"), set(2, "2", "18"), commit(2),
		get(1, "2", "20"), commit(1), scan(0, "1=12 2=18"),
	}},
	{"G-single read skew with predicates", []Step{
		scan(1, "1=10 2=20"), get(2, "1", "10"), set(2, "1", "12"), commit(2),
		scan(1, "1=10 2=20"), commit(1), scan(0, "1=12 2=20"),
	}},
	{"G-single read skew with a write by predicate", []Step{
		get(1, "1", "10"), scan(2, "1=10 2=20"), set(2, "1", "12"), set(2, "2", "18"), commit(2),
		scan(1, "1=10 2=20"), del(1, "2"), scan(1, "1=10"), refused(1, Serializable|Snapshot),
		scan(0, "1=12 2=18").at(Serializable | Snapshot), scan(0, "1=12").at(LastWins),
	}},
	{"G-single read skew with an interrupted write by predicate", []Step{
		get(1, "1", "10"), scan(2, "1=10 2=20"), set(2, "1", "12"),
		scan(1, "1=10 2=20"), del(1, "2"), set(2, "2", "18"), rollback(1), commit(2),
		scan(0, "1=12 2=18"),
	}},
	{"G2-item write skew", []Step{
		get(1, "1", "10"), get(1, "2", "20"), get(2, "1", "10"), get(2, "2", "20"),
		set(1, "1", "11"), set(2, "2", "21"), commit(1), refused(2, Serializable),
		scan(0, "1=11 2=20").at(Serializable), scan(0, "1=11 2=21").at(Snapshot | LastWins),
	}},
	{"G2 write skew with predicates", []Step{
		scan(1, "1=10 2=20"), scan(2, "1=10 2=20"), set(1, "3", "30"), set(2, "4", "42"),
		commit(1), refused(2, Serializable),
		scan(0, "1=10 2=20 3=30").at(Serializable), scan(0, "1=10 2=20 3=30 4=42").at(Snapshot | LastWins),
	}},
	{"G2 read-only anomaly", []Step{
		scan(1, "1=10 2=20"), get(2, "2", "20"), set(2, "2", "25"), commit(2),
		scan(3, "1=10 2=25"), commit(3), set(1, "1", "0"), refused(1, Serializable),
		scan(0, "1=10 2=25").at(Serializable), scan(0, "1=0 2=25").at(Snapshot | LastWins),
	}},

	{"both make the same absent key", []Step{
		get(1, "5", ""), get(2, "5", ""), set(1, "5", "51"), set(2, "5", "52"),
		commit(1), refused(2, Serializable|Snapshot),
		get(0, "5", "51").at(Serializable | Snapshot), get(0, "5", "52").at(LastWins),
	}},
	{"an absent key appears", []Step{
		get(1, "5", ""), set(1, "6", "x"), set(2, "5", "52"), commit(2), refused(1, Serializable),
		get(0, "6", "").at(Serializable), get(0, "6", "x").at(Snapshot | LastWins),
	}},
	{"a key that was read is deleted", []Step{
		get(1, "1", "10"), set(1, "6", "x"), del(2, "1"), commit(2), get(1, "1", "10"), refused(1, Serializable),
		get(0, "1", ""),
	}},
	{"a key is deleted and made again with its old value", []Step{
		get(1, "1", "10"), set(1, "6", "x"), del(2, "1"), commit(2), set(3, "1", "10"), commit(3),
		refused(1, Serializable), get(0, "1", "10"),
	}},
	{"a phantom in an empty range", []Step{
		scanRange(1, "3", "6", ""), set(1, "8", "x"), set(2, "4", "40"), commit(2), scanRange(1, "3", "6", ""),
		refused(1, Serializable), get(0, "4", "40"),
	}},
	{"a phantom vanishes from a range", []Step{
		scanRange(1, "2", "6", "2=20"), set(1, "8", "x"), del(2, "2"), commit(2), refused(1, Serializable),
		scan(0, "1=10").at(Serializable), scan(0, "1=10 8=x").at(Snapshot | LastWins),
	}},
	{"writes beside a range", []Step{
		scanRange(1, "2", "4", "2=20"), set(1, "8", "x"), set(2, "1", "11"), set(2, "4", "40"), commit(2), commit(1),
		scan(0, "1=11 2=20 4=40 8=x"),
	}},
	{"own writes", []Step{
		set(1, "1", "11"), get(1, "1", "11"), del(1, "2"), get(1, "2", ""), set(1, "3", "30"),
		scan(1, "1=11 3=30"), set(1, "3", "31"), scanRange(1, "3", "4", "3=31"),
		scan(0, "1=10 2=20"), commit(1), scan(0, "1=11 3=31"),
	}},
	{"own reads of own writes conflict with nobody", []Step{
		set(1, "1", "11"), get(1, "1", "11"), set(2, "1", "12"), commit(2), refused(1, Snapshot),
		get(0, "1", "11").at(Serializable | LastWins), get(0, "1", "12").at(Snapshot),
	}},
	{"a snapshot is of the begin", []Step{
		{Txn: 1, Do: Begin}, set(2, "1", "12"), commit(2), get(1, "1", "10"), set(1, "3", "30"), refused(1, Serializable),
		get(0, "3", "").at(Serializable), get(0, "3", "30").at(Snapshot | LastWins),
	}},
	{"one after the other", []Step{
		get(1, "1", "10"), set(1, "1", "11"), commit(1),
		get(2, "1", "11"), set(2, "1", "12"), commit(2),
		scan(3, "1=12 2=20"), set(3, "2", "22"), commit(3), scan(0, "1=12 2=22"),
	}},
}

func get(txn int, key, want string) Step  { return Step{Txn: txn, Do: Get, Key: key, Want: want} }
func scan(txn int, want string) Step      { return Step{Txn: txn, Do: Scan, Want: want} }
func set(txn int, key, value string) Step { return Step{Txn: txn, Do: Set, Key: key, Value: value} }
func del(txn int, key string) Step        { return Step{Txn: txn, Do: Delete, Key: key} }
func commit(txn int) Step                 { return Step{Txn: txn, Do: Commit} }
func refused(txn int, levels Levels) Step { return Step{Txn: txn, Do: Commit, Refused: levels} }
func rollback(txn int) Step               { return Step{Txn: txn, Do: Rollback} }
func (s Step) at(levels Levels) Step      { s.At = levels; return s }

func scanRange(txn int, lo, hi, want string) Step {
	return Step{Txn: txn, Do: Scan, Key: lo, Value: hi, Want: want}
}

// Store is what the cases run on: it begins a transaction at one level.
type Store interface {
	Begin(level Levels) (Session, error)
}

// Session is a transaction of a Store.
type Session interface {
	Get(key string) (value string, err error) // "" if it is absent
	Scan(lo, hi string) ([]string, error)     // "key=value" each, in order; hi "" = no bound
	Set(key, value string) error
	Delete(key string) error
	Commit() (conflict bool, err error) // ends it
	Rollback() error                    // ends it
}

// Run runs the case at one level on a store that has no keys but those with
// which every case begins, and returns the first step that went wrong.
func (c Case) Run(s Store, level Levels) error {
	open := map[int]Session{}
	defer func() {
		for _, x := range open {
			x.Rollback()
		}
	}()
	for i, step := range c.Steps {
		if step.At != 0 && step.At&level == 0 {
			continue
		}
		x := open[step.Txn]
		if x == nil {
			var err error
			if x, err = s.Begin(level); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			open[step.Txn] = x
		}
		if err := step.run(x, level); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, step, err)
		}
		if step.Do == Commit || step.Do == Rollback {
			delete(open, step.Txn)
		} else if step.Txn == 0 {
			delete(open, 0)
			if err := x.Rollback(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}

func (s Step) run(x Session, level Levels) error {
	var got string
	switch s.Do {
	case Get:
		value, err := x.Get(s.Key)
		if err != nil {
			return err
		}
		got = value
	case Scan:
		items, err := x.Scan(s.Key, s.Value)
		if err != nil {
			return err
		}
		got = strings.Join(items, " ")
	case Set:
		return x.Set(s.Key, s.Value)
	case Delete:
		return x.Delete(s.Key)
	case Commit:
		conflict, err := x.Commit()
		if want := s.Refused&level != 0; err == nil && conflict != want {
			return fmt.Errorf("conflict is %v", conflict)
		}
		return err
	case Rollback:
		return x.Rollback()
	}
	if got != s.Want {
		return fmt.Errorf("got %q, want %q", got, s.Want)
	}
	return nil
}

// String is the step on one line: who does what.
func (s Step) String() string {
	verb := [...]string{"begin", "get", "scan", "set", "delete", "commit", "rollback"}[s.Do]
	return strings.TrimSpace(fmt.Sprintf("T%d %s %s %s", s.Txn, verb, s.Key, s.Value))
}
