package debug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

func Example() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	log := debug.NewLog()
	db, err := brock.Open(brock.Options{Dir: dir, Events: log.Events(brock.Events{})})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	mux := http.NewServeMux() // of the port where pprof is
	mux.Handle("/debug/brock/", debug.Handler(db, debug.Title("orders"), debug.Events(log)))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/brock/", nil))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
