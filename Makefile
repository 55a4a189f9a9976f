.PHONY: check test

check: ## the whole gate, as in CI
	.ci/run

test: ## the tests of all modules
	go test -timeout 60m ./... ./cmd/brock/... ./bench/... ./metrics/prom/... ./metrics/otel/... ./powercut/... ./repository/... ./repository/blob/...
