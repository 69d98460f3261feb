#!/bin/sh
# Runs the tests whose outcome depends on the API server on each version of it that test/kube has, or on ONLY=1.36, and those of SQL on
# each version of Postgres, or on ONLY=postgres-13. What came of it stands in docs/installing.md.
set -u
cd "$(dirname "$0")/../.."

versions() { # such as 1.36, from v1.36.mod, and the newest from go.mod
	sed -nE 's/^\tk8s\.io\/kubernetes v([0-9]+\.[0-9]+)\..*/\1/p' test/kube/v*.mod test/kube/go.mod
}

tests() { # of a package: parts of their names
	case $1 in
	source/reflector) echo 'GapOf300ChangesIs|RandomGaps|CustomResource|QuietStreamOfEvents|TwoEtcds|RecoverTogether|RestoredEtcd|PermissionWithdrawn|ProofsWhile|Finalizers|BrokenNetwork|Selector' ;;
	test/e2e) echo 'EverythingDiesOnce|PostgresSinkKeepsEveryChangeOnce|WhatRecordsHold|QuietEventsOutlive|WhatWasRemovedUnseen|AReplicaThatStandsBy|VerifyFindsAndRepairsWhatATopic' ;;
	*) echo . ;;
	esac
}

postgres() { # its releases in Maven Central
	echo 13.23.0 14.20.0 15.15.0 16.11.0 17.7.0 18.1.0
}

failed=
for release in $(postgres); do
	case " ${ONLY:-postgres-${release%%.*}} " in *" postgres-${release%%.*} "*) ;; *) continue ;; esac
	export KUBECDC_TEST_POSTGRES="$release"
	go run ./test/servers/cmd/servers install postgres || exit 1
	for package in internal/pgdb checkpoint/postgres sinks/postgres; do
		echo "Postgres $release: $package"
		go test -count=1 -timeout 20m "./$package" || failed="$failed $release:$package"
	done
	unset KUBECDC_TEST_POSTGRES
done
for version in ${ONLY:-$(versions)}; do
	case $version in postgres-*) continue ;; esac
	export KUBECDC_TEST_KUBE="$version" KUBECDC_TEST_HISTORIES=40
	go run ./test/servers/cmd/servers install kubernetes || exit 1
	for package in source/reflector source/discovery schema test/e2e; do
		echo "kube-apiserver $version: $package"
		go test -count=1 -timeout 20m -run "$(tests $package)" "./$package" || failed="$failed $version:$package"
	done
done
test -z "$failed" || { echo "failed:$failed" >&2; exit 1; }
