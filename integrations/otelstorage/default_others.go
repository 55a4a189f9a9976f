//go:build !windows

package otelstorage

func defaultDirectory() string { return "/var/lib/otelcol/" + typeName }
