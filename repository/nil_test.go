package repository_test

import (
	"context"
	"errors"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
)

// TestNilArguments: a nil context or repository is ErrInvalid, and no panic.
func TestNilArguments(t *testing.T) {
	ctx, s := t.Context(), repository.Dir(nil, t.TempDir())
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var none context.Context
	for name, call := range map[string]func() error{
		"backup, context": func() error { _, err := repository.Backup(none, db, s, repository.Options{}); return err },
		"backup, store":   func() error { _, err := repository.Backup(ctx, nil, s, repository.Options{}); return err },
		"backup, place":   func() error { _, err := repository.Backup(ctx, db, nil, repository.Options{}); return err },
		"list, context":   func() error { _, err := repository.List(none, s); return err },
		"list, place":     func() error { _, err := repository.List(ctx, nil); return err },
		"verify, context": func() error { _, err := repository.Verify(none, s, repository.VerifyOptions{}, nil); return err },
		"verify, place":   func() error { _, err := repository.Verify(ctx, nil, repository.VerifyOptions{}, nil); return err },
		"restore, context": func() error {
			_, err := repository.Restore(none, s, "", "new", repository.RestoreOptions{})
			return err
		},
		"restore, place": func() error {
			_, err := repository.Restore(ctx, nil, "", "new", repository.RestoreOptions{})
			return err
		},
		"prune, context": func() error {
			_, err := repository.Prune(none, s, repository.Keep{}, repository.PruneOptions{})
			return err
		},
		"prune, place": func() error {
			_, err := repository.Prune(ctx, nil, repository.Keep{}, repository.PruneOptions{})
			return err
		},
	} {
		if err := call(); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
