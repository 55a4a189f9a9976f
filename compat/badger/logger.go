package badger

import (
	"context"
	"log"
	"log/slog"
	"os"
	"strings"
)

// Logger takes the messages of a store: what happens in the background, and errors that no call can
// return. Its methods may be called from any goroutine.
type Logger interface {
	Errorf(string, ...interface{})
	Warningf(string, ...interface{})
	Infof(string, ...interface{})
	Debugf(string, ...interface{})
}

// Errorf passes a message on to Logger, if there is one.
func (opt *Options) Errorf(format string, v ...interface{}) {
	if opt.Logger != nil {
		opt.Logger.Errorf(format, v...)
	}
}

// Warningf passes a message on to Logger, if there is one.
func (opt *Options) Warningf(format string, v ...interface{}) {
	if opt.Logger != nil {
		opt.Logger.Warningf(format, v...)
	}
}

// Infof passes a message on to Logger, if there is one.
func (opt *Options) Infof(format string, v ...interface{}) {
	if opt.Logger != nil {
		opt.Logger.Infof(format, v...)
	}
}

// Debugf passes a message on to Logger, if there is one.
func (opt *Options) Debugf(format string, v ...interface{}) {
	if opt.Logger != nil {
		opt.Logger.Debugf(format, v...)
	}
}

type loggingLevel int

// The levels of the default logger.
const (
	DEBUG loggingLevel = iota
	INFO
	WARNING
	ERROR
)

// defaultLog writes messages from a level on to standard error.
type defaultLog struct {
	*log.Logger
	level loggingLevel
}

func newDefaultLog(level loggingLevel) *defaultLog {
	return &defaultLog{Logger: log.New(os.Stderr, "badger ", log.LstdFlags), level: level}
}

func (l *defaultLog) printFrom(level loggingLevel, name, format string, v []interface{}) {
	if l.level <= level {
		l.Printf(name+": "+format, v...)
	}
}

// Errorf writes an error.
func (l *defaultLog) Errorf(f string, v ...interface{}) { l.printFrom(ERROR, "ERROR", f, v) }

// Warningf writes a warning.
func (l *defaultLog) Warningf(f string, v ...interface{}) { l.printFrom(WARNING, "WARNING", f, v) }

// Infof writes what happens.
func (l *defaultLog) Infof(f string, v ...interface{}) { l.printFrom(INFO, "INFO", f, v) }

// Debugf writes details.
func (l *defaultLog) Debugf(f string, v ...interface{}) { l.printFrom(DEBUG, "DEBUG", f, v) }

// logHandler passes the log records of Brock on to a Logger.
type logHandler struct {
	to    Logger
	attrs string // of WithAttrs, as text
	group string // prefix of the names of attributes
}

// newSlog returns what Brock logs to; nil is silent.
func newSlog(to Logger) *slog.Logger {
	if to == nil {
		return nil
	}
	return slog.New(&logHandler{to: to})
}

// Enabled says that all records are wanted: the Logger chooses.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle passes a record on as one line.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.appendAttr(&b, a)
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		h.to.Errorf("%s", b.String())
	case r.Level >= slog.LevelWarn:
		h.to.Warningf("%s", b.String())
	case r.Level >= slog.LevelInfo:
		h.to.Infof("%s", b.String())
	default:
		h.to.Debugf("%s", b.String())
	}
	return nil
}

func (h *logHandler) appendAttr(b *strings.Builder, a slog.Attr) {
	b.WriteByte(' ')
	b.WriteString(h.group)
	b.WriteString(a.Key)
	b.WriteByte('=')
	b.WriteString(a.Value.String())
}

// WithAttrs returns a handler that adds attributes to each record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		h.appendAttr(&b, a)
	}
	return &logHandler{to: h.to, attrs: b.String(), group: h.group}
}

// WithGroup returns a handler that puts a name before those of attributes.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{to: h.to, attrs: h.attrs, group: h.group + name + "."}
}
