// Command powercut cuts the power of a disk while a store on it is written to, and checks what
// the next Open finds. The file system is a real one: ext4, XFS or Btrfs.
//
//	sudo go run ./powercut                  # a round for each file system that is here
//	sudo go run ./powercut -rounds 100      # a campaign: some 20 s a round
//	sudo go run ./powercut -fs xfs -o noatime -images 200
//
// A round formats a disk in memory, which FUSE shows as a file and a loop device as a disk. A
// process of its own writes to a store there, and says which commits were acknowledged. The disk
// records each write and each flush that it gets from the file system. From this record powercut
// makes images: what the disk may hold if the power had gone at some moment. Everything up to the
// last flush is there; of the writes behind it any may be missing, also parts of them. Each image
// is mounted, so that the file system repairs itself, and the store on it is opened, compared with
// a model, verified, written to and opened again.
//
// It needs Linux, root, /dev/fuse, loop devices and mkfs of the file systems. Exit status 77 says
// that one of these is missing, 1 that an image was bad or something else has failed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "powercut:", err)
	if errors.Is(err, errUnable) {
		os.Exit(77) // go itself uses 1 and 2
	}
	os.Exit(1)
}

var (
	errUnable = errors.New("can't be done on this machine")
	errBad    = errors.New("the store has not survived")
)

// settings are the flags.
type settings struct {
	fs, mount, mkfs string
	rounds, images  int
	write           time.Duration
	megabytes       int
	seed            uint64
	fail            bool
	dir, keep       string
	ctx             context.Context // ends by Ctrl-C
}

// run is the command: arguments in, a line for each round out. The first argument may also be
// the name of one of the parts that are processes of their own.
func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "work":
			return runWork(args[1:], stdout)
		case "check":
			return runCheck(args[1:])
		}
	}
	var s settings
	flags := flag.NewFlagSet("powercut", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.fs, "fs", "ext4,xfs,btrfs", "file systems; those without a mkfs on this machine are left out")
	flags.StringVar(&s.mount, "o", "noatime", "options of mount")
	flags.StringVar(&s.mkfs, "mkfs", "", "options of mkfs, divided by spaces")
	flags.IntVar(&s.rounds, "rounds", 1, "rounds for each file system")
	flags.IntVar(&s.images, "images", 40, "images in each round")
	flags.DurationVar(&s.write, "for", 3*time.Second, "how long the store is written to in each round")
	flags.IntVar(&s.megabytes, "mb", 320, "size of the disk, which is in memory three times")
	flags.Uint64Var(&s.seed, "seed", 0, "of the first round; 0 = another one each time. The file system and the scheduler are not repeatable")
	flags.BoolVar(&s.fail, "fail", false, "the disk fails for good in the middle of each round; the store must survive that, too")
	flags.StringVar(&s.dir, "dir", "", "an empty directory for images and mounts (default: a new one in /dev/shm)")
	flags.StringVar(&s.keep, "keep", "", "a directory for images that were bad")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || s.rounds < 1 || s.images < 1 || s.megabytes < 128 {
		return errors.New("-rounds and -images must be 1 or more, -mb 128 or more, and nothing may follow")
	}
	// A program that ends by Ctrl-C would leave mounts behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.ctx = ctx
	return s.campaign(stdout)
}

// campaign does all rounds.
func (s *settings) campaign(stdout io.Writer) error {
	var kinds []string
	for _, kind := range strings.Split(s.fs, ",") {
		if _, err := exec.LookPath("mkfs." + kind); err == nil {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("%w: there is no mkfs for any of %q", errUnable, s.fs)
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("/dev/shm", "powercut-")
		if err != nil {
			return fmt.Errorf("%w: %w; use -dir", errUnable, err)
		}
		defer os.RemoveAll(dir)
		s.dir = dir
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	images, bad := 0, 0
	err := func() error {
		for n := range s.rounds {
			for _, kind := range kinds {
				r := round{settings: s, kind: kind, seed: s.seed + uint64(n), out: stdout}
				err := r.run()
				images, bad = images+r.images, bad+r.bad
				if err != nil {
					return err
				}
			}
		}
		return nil
	}()
	fmt.Fprintf(stdout, "%d images, %d bad\n", images, bad)
	switch {
	case bad > 0:
		return fmt.Errorf("%w in %d of %d images", errBad, bad, images)
	case images > 0 && err != nil:
		return fmt.Errorf("after %d images: %v", images, err) // not errUnable: it was possible
	}
	return err
}

// round is one life of a disk.
type round struct {
	*settings
	kind string
	seed uint64
	out  io.Writer

	images, bad int // that were checked, and found bad
}

func (r *round) run() error {
	rec, err := r.record()
	if err != nil {
		return err
	}
	flushes, acks := rec.count(flush), rec.count(ack)
	fmt.Fprintf(r.out, "%s -o %s, seed %d (%s): %d MB written in %d writes, %d flushes, %d commits acknowledged\n",
		r.kind, r.mount, r.seed, shapeOf(r.seed), rec.written>>20, rec.count(write), flushes, acks)
	if acks == 0 {
		return errors.New("no commit was acknowledged: there is nothing to check")
	}
	rng := rand.New(rand.NewPCG(r.seed, 1))
	return rec.images(rng, r.settings.images, func(c cut, image []byte) error {
		found, err := r.check(c, image)
		if err := cmp.Or(context.Cause(r.ctx), err); err != nil {
			return err
		}
		r.images++
		if found == "" {
			return nil
		}
		r.bad++
		fmt.Fprintf(r.out, "BAD: %v: %s\n", c, found)
		if r.keep == "" {
			return nil
		}
		return os.WriteFile(filepath.Join(r.keep, fmt.Sprintf("%s-%d-%d.img", r.kind, r.seed, c.at)), image, 0o600)
	})
}

// record formats a disk, has a process write to a store on it, and returns what reached the
// disk meanwhile.
func (r *round) record() (rec *recording, err error) {
	img := filepath.Join(r.dir, "image")
	if err := format(img, r.kind, r.mkfs, r.megabytes); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnable, err)
	}
	formatted, err := os.ReadFile(img)
	if err != nil {
		return nil, err
	}
	rec = &recording{data: formatted}
	if r.fail {
		rec.failsAt = rand.New(rand.NewPCG(r.seed, 3)).Int64N(100 << 20)
	}
	d, err := attach(rec, r.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnable, err)
	}
	defer func() { err = errors.Join(err, d.detach()) }()
	mnt := filepath.Join(r.dir, "mnt")
	if err := mount(r.kind, r.mount, d.device, mnt); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnable, err)
	}
	defer func() { err = errors.Join(err, unmount(mnt)) }()
	rec.start()
	defer rec.stop() // before it is unmounted
	return rec, r.work(rec, filepath.Join(mnt, "store"))
}

// work runs the process that writes, and records what it says was acknowledged.
func (r *round) work(rec *recording, store string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.write+hang)
	defer cancel()
	c := exec.CommandContext(ctx, self, "work", "-dir", store, "-seed", fmt.Sprint(r.seed), "-for", r.write.String())
	var complaint strings.Builder
	c.Stderr = &complaint
	said, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = readAcks(said, rec.acknowledge)
	ended := c.Wait()
	if exit := (*exec.ExitError)(nil); r.fail && errors.As(ended, &exit) && exit.ExitCode() == 1 {
		ended = nil // it has got an error, as it should; a panic is status 2
	}
	if ended != nil {
		ended = fmt.Errorf("%w: while it was written to: %w: %s", errBad, ended, complaint.String())
	}
	return errors.Join(err, ended)
}

// hang is how much longer than asked for a process may write.
const hang = time.Minute

// check mounts an image and has a process check the store on it. It returns what is wrong there.
func (r *round) check(c cut, image []byte) (found string, err error) {
	img := filepath.Join(r.dir, "image")
	if err := os.WriteFile(img, image, 0o600); err != nil {
		return "", err
	}
	mnt := filepath.Join(r.dir, "mnt")
	if err := mount(r.kind, r.mount+",loop", img, mnt); err != nil {
		return "", fmt.Errorf("%v: the file system itself has not survived: %w", c, err)
	}
	defer func() { err = errors.Join(err, unmount(mnt)) }()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	said, err := exec.Command(self, "check", "-dir", filepath.Join(mnt, "store"), "-seed", fmt.Sprint(r.seed), "-acks", c.acks.String()).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Sprintf("%v: %s", err, said), nil
	}
	return "", err
}
