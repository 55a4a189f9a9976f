#!/usr/bin/env bash
# Installs what the peers written in C and C++ need, and fio, on Debian and
# Ubuntu. Afterwards: go run -tags cgo_peers ./bench
set -euo pipefail
sudo=
[[ $(id -u) == 0 ]] || sudo=sudo
$sudo apt-get update
$sudo apt-get install -y --no-install-recommends gcc libc6-dev liblmdb-dev librocksdb-dev fio
