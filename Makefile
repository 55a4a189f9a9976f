.PHONY: check test race fuzz lint docs

check: ## the whole gate, as in CI
	.ci/run

test: ## the tests of all modules
	go test -timeout 60m ./... ./cmd/brock/... ./bench/... ./metrics/prom/... ./metrics/otel/... ./powercut/... ./examples/bank/... ./examples/search/... ./repository/... ./repository/blob/...

race fuzz lint docs: ## one step of the gate; .ci/run -l lists all
	.ci/run $@
