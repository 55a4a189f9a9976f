module github.com/brockdb/brock

go 1.26
