#!/usr/bin/env bash
# Runs load tests against a private server, then `seckill verify`. Exits non-zero if anything failed.
# HTML reports with charts, summaries and the log of the server are written to loadtest/reports.
#
#   loadtest/run.sh [smoke|rush|soldout|soak|spike|all]...    default: smoke and rush
#   BUYERS=2000 STOCK=200 VUS=500 loadtest/run.sh rush
#   SECKILL_ORDER_LANE=queue PROFILE=smoke loadtest/run.sh all
#
# ENTRY=pass creates sales that need passes, and the buyers get them.
# PROFILE=smoke shortens each test to seconds. The other settings are described in each script.
#
# SECKILL_MYSQL_DSN and SECKILL_REDIS_ADDRS name the database and the Redis, which should be empty. Without them the
# server uses the embedded default. Other SECKILL_* variables, such as SECKILL_ORDER_LANE, are passed to the server.
set -euo pipefail

readonly K6_VERSION=v1.8.1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/loadtest/reports
scripts=(smoke rush soldout soak spike)
work=$(mktemp -d)
server=
chosen=()
failed=()

stop_server() {
	[[ -n $server ]] || return 0
	local pid=$server
	server=
	kill -TERM "$pid" 2>/dev/null || true
	wait "$pid"
}

cleanup() {
	stop_server || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step runs a command under a title and records a failure. The next steps run even then, because the result of verify
# matters most after a failure.
step() {
	local title=$1
	shift
	echo "== $title"
	"$@" || failed+=("$title (exit $?)")
}

find_k6() {
	local gobin
	gobin=$(go env GOBIN)
	gobin=${gobin:-$(go env GOPATH)/bin}
	k6=$(command -v k6 || echo "$gobin/k6")
	if [[ ! -x $k6 ]]; then
		echo "k6 is missing: installing $K6_VERSION into $gobin (a minute or two)"
		go install "go.k6.io/k6@$K6_VERSION"
		k6=$gobin/k6
	fi
}

# start_server starts the server on a free port and sets BASE_URL.
start_server() {
	"$work/seckill" serve >"$work/stdout" 2>"$out/server.log" &
	server=$!
	local deadline=$((SECONDS + 60))
	while ! grep -q '^seckill listens on ' "$work/stdout"; do
		if ! kill -0 "$server" 2>/dev/null || ((SECONDS > deadline)); then
			echo "the server did not start:" >&2
			tail -n 20 "$out/server.log" >&2
			exit 1
		fi
		sleep 0.1
	done
	BASE_URL=$(sed -n 's/^seckill listens on \(http[^ ]*\).*/\1/p' "$work/stdout")
	export BASE_URL
	head -n 1 "$work/stdout"
}

# run_k6 NAME runs loadtest/NAME.js. The k6 dashboard writes the report; port -1 keeps it from being served.
run_k6() {
	K6_WEB_DASHBOARD=true K6_WEB_DASHBOARD_PORT=-1 K6_WEB_DASHBOARD_PERIOD=1s \
		K6_WEB_DASHBOARD_EXPORT=$out/$1.html \
		"$k6" run --no-usage-report --quiet "$root/loadtest/$1.js" | tee "$out/$1.txt"
}

# choose sets chosen to the scripts to run.
choose() {
	local name
	for name in "$@"; do
		[[ $name == all || " ${scripts[*]} " == *" $name "* ]] || { usage; exit 2; }
	done
	case " $* " in
	"  ") chosen=(smoke rush) ;;
	*" all "*) chosen=("${scripts[@]}") ;;
	*) chosen=("$@") ;;
	esac
}

usage() { sed -n '2,/^$/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; }

# short sets unset sizes to values that take only seconds.
short() {
	export BUYERS=${BUYERS:-300} STOCK=${STOCK:-50} VUS=${VUS:-50}
	export SMOKE_DURATION=${SMOKE_DURATION:-3s}
	export SOLDOUT_STOCK=${SOLDOUT_STOCK:-20} SOLDOUT_VUS=${SOLDOUT_VUS:-16} SOLDOUT_DURATION=${SOLDOUT_DURATION:-3s}
	export SOAK_RATE=${SOAK_RATE:-30} SOAK_DURATION=${SOAK_DURATION:-6s}
	export SPIKE_CALM=${SPIKE_CALM:-10} SPIKE_RATE=${SPIKE_RATE:-100}
	export SPIKE_BEFORE=${SPIKE_BEFORE:-3s} SPIKE_DURATION=${SPIKE_DURATION:-3s}
}

choose "$@"
case ${PROFILE:-full} in
full) ;;
smoke) short ;;
*)
	echo "PROFILE is $PROFILE, neither full nor smoke" >&2
	exit 2
	;;
esac
export BUYERS=${BUYERS:-2000} STOCK=${STOCK:-200} TOKENS=$work/tokens
export SECKILL_ADDR=127.0.0.1:0 SECKILL_DATA_DIR=$work/data
export SECKILL_DEMO=true SECKILL_RATE_LIMIT=off # for hundreds of logins from one address
export SECKILL_UNSAFE=demo,sandbox,rate_limit
export SECKILL_LOG_LEVEL=${SECKILL_LOG_LEVEL:-warn} SECKILL_DRAIN=${SECKILL_DRAIN:-0s}
if [[ -n ${SECKILL_MYSQL_DSN:-} && -z ${SECKILL_JWT_SECRET:-} ]]; then
	SECKILL_JWT_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
	export SECKILL_JWT_SECRET
fi
if [[ -n ${SECKILL_ADMIN_PHONES:-} ]]; then
	export ADMIN_PHONE=${SECKILL_ADMIN_PHONES%%,*}
fi

mkdir -p "$out"
for name in "${chosen[@]}"; do rm -f "$out/$name".{html,txt}; done
rm -f "$out/server.log"
cd "$root"
find_k6
go build -o "$work/seckill" ./cmd/seckill

# One more user for the last order.
"$work/seckill" seed --users "$((BUYERS + 1))" --tokens "$TOKENS"
start_server
for name in "${chosen[@]}"; do
	step "$name, lane ${SECKILL_ORDER_LANE:-lock}" run_k6 "$name"
done
step "verify" "$work/seckill" verify
step "stop the server" stop_server

if ((${#failed[@]} > 0)); then
	printf 'FAILED: %s\n' "${failed[@]}" >&2
	echo "see $out" >&2
	exit 1
fi
echo "passed: reports are in $out"
