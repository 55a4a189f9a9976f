package jobs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An alarm rings once, at the earliest time that it was set for, and not after
// Close; it never waits for more than an hour.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		begin := time.Now()
		var mu sync.Mutex
		var rang []time.Duration
		a := p.Alarm(p.Task(Compaction, "alarm", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			rang = append(rang, time.Since(begin))
			return nil
		}))
		want := func(times ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(rang) != len(times) {
				t.Fatalf("rang at %v, want %v", rang, times)
			}
			for i := range times {
				if rang[i] != times[i] {
					t.Errorf("rang at %v, want %v", rang, times)
				}
			}
		}
		if _, set := a.Left(); set {
			t.Error("set from the beginning")
		}
		a.Set(10 * time.Minute)
		a.Set(20 * time.Minute)
		a.Set(5 * time.Minute)
		if left, set := a.Left(); !set || left != 5*time.Minute {
			t.Errorf("left %v, %v", left, set)
		}
		<-time.After(4 * time.Minute)
		want()
		<-time.After(30 * time.Minute)
		want(5 * time.Minute)
		if _, set := a.Left(); set {
			t.Error("still set")
		}
		a.Set(100 * time.Hour)
		<-time.After(2 * time.Hour)
		want(5*time.Minute, 94*time.Minute)
		a.Set(-time.Second)
		want(5*time.Minute, 94*time.Minute, 154*time.Minute)
		a.Set(time.Second)
		a.Stop()
		a.Stop()
		if _, set := a.Left(); set {
			t.Error("set after Stop")
		}
		<-time.After(time.Minute)
		want(5*time.Minute, 94*time.Minute, 154*time.Minute)
		a.Set(time.Second)
		p.Close()
		a.Set(time.Second)
		<-time.After(time.Minute)
		want(5*time.Minute, 94*time.Minute, 154*time.Minute)
	})
}
