package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("BANK_DIR"); dir != "" { // the process that is killed
		if err := run(context.Background(), dir, 8); err != nil {
			println(err.Error())
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilled: the bank is killed again and again. Each time its books are right, and no transfer
// that was in them is gone.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bank.db")
	before := 0
	for i := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "BANK_DIR="+dir)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It may be killed at any moment: while it opens the store, too.
		<-time.After(time.Duration(100+i*150) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("it has ended by itself: %v\n%s", err, &said)
		}
		db, err := brock.Open(brock.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		b, err := openBank(db)
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.audit()
		if err != nil || n < before {
			t.Errorf("%d transfers after %d: %v", n, before, err)
		}
		before = n
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if before == 0 {
		t.Error("there was no transfer")
	}
}

// TestAuditorSees: an auditor who finds nothing would find money that is gone.
func TestAuditorSees(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := openBank(db)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := b.trade(ctx, 4); err != nil {
		t.Error(err)
	}
	if err := b.accounts.Set(number(3), number(100000)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.audit(); err == nil {
		t.Error("nobody has seen it")
	}
}
