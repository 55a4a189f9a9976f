package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a block device whose bytes are in a recording: a loop device over a file of a FUSE
// file system.
type disk struct {
	device string
	server *fuse.Server
}

// attach makes the device. It uses folders of dir.
func attach(rec *recording, dir string) (*disk, error) {
	for _, name := range []string{"fuse", "mnt"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	server, err := fs.Mount(filepath.Join(dir, "fuse"), &folder{file: &file{rec: rec}}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, MaxWrite: 1 << 20, Name: "powercut", FsName: "powercut"},
	})
	if err != nil {
		return nil, fmt.Errorf("FUSE: %w", err)
	}
	device, err := command("losetup", "--find", "--show", filepath.Join(dir, "fuse", "disk"))
	if err != nil {
		return nil, errors.Join(err, server.Unmount())
	}
	return &disk{device: device, server: server}, nil
}

func (d *disk) detach() error {
	_, err := command("losetup", "--detach", d.device)
	return errors.Join(err, d.server.Unmount())
}

// folder is the root of the FUSE file system: it has one file.
type folder struct {
	fs.Inode
	file *file
}

// OnAdd adds the file.
func (f *folder) OnAdd(ctx context.Context) {
	f.AddChild("disk", f.NewPersistentInode(ctx, f.file, fs.StableAttr{Mode: syscall.S_IFREG}), true)
}

// file passes what the loop device does on to the recording. The kernel caches nothing of it.
type file struct {
	fs.Inode
	rec *recording
}

var (
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
)

// Getattr says how large the disk is.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(len(f.rec.data))
	return fs.OK
}

// Setattr changes nothing.
func (f *file) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return f.Getattr(ctx, h, out)
}

// Open opens the file.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, fs.OK
}

// Read reads the disk.
func (f *file) Read(_ context.Context, _ fs.FileHandle, to []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := f.rec.readAt(to, off)
	return fuse.ReadResultData(to[:n]), errno(err)
}

// Write writes to the disk.
func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := f.rec.writeAt(data, off)
	return uint32(n), errno(err)
}

// Fsync is what a loop device makes of a flush.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return errno(f.rec.flush())
}

func errno(err error) syscall.Errno {
	if err != nil {
		return syscall.EIO
	}
	return fs.OK
}

// format makes a file with an empty file system. Unused blocks need not be discarded.
func format(name, kind, options string, megabytes int) error {
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(name, int64(megabytes)<<20); err != nil {
		return err
	}
	args := map[string][]string{"ext4": {"-q", "-F", "-E", "nodiscard"}, "xfs": {"-q", "-f", "-K"}, "btrfs": {"-q", "-f", "-K"}}[kind]
	_, err := command("mkfs."+kind, append(append(args, strings.Fields(options)...), name)...)
	return err
}

func mount(kind, options, from, to string) error {
	_, err := command("mount", "-t", kind, "-o", options, from, to)
	return err
}

func unmount(dir string) error {
	_, err := command("umount", dir)
	return err
}

// command runs a program and returns what it prints.
func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}
