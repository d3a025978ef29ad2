#!/usr/bin/env bash
# Tries docker-compose.yml with the Docker engine of this machine: check.sh COPY, where COPY/src is a copy of the repository
# and COPY/*.yml are further files for compose. OBSERVABILITY has the services of that profile that have an image. Everything
# belongs to a project of its own, and is removed at the end.
set -euo pipefail
cd "$1/src"

# The same health checks, but each second.
{
	echo 'services:'
	for service in app proxy mysql redis redis-replica sentinel-{1,2,3} prometheus grafana; do
		echo "  $service: {healthcheck: {interval: 1s}}"
	done
} >../quick.yml
COMPOSE_FILE=docker-compose.yml
for file in ../*.yml; do
	COMPOSE_FILE+=:$file
done
export COMPOSE_FILE
read -ra observability <<<"${OBSERVABILITY-prometheus grafana}"
export COMPOSE_ANSI=never COMPOSE_PROJECT_NAME=seckill-check EDGE_NETWORK=10.213.1
export HTTP_PORT=18080 HTTPS_PORT=18443 PROMETHEUS_PORT=19090 GRAFANA_PORT=13000
export SITE_ADDRESS="localhost, shop.internal" VERSION=0.0.0-check
plain=http://127.0.0.1:$HTTP_PORT
tls=https://localhost:$HTTPS_PORT
named=https://shop.internal:$HTTPS_PORT

step() {
	printf '\n== %s (%d s)\n' "$1" "$SECONDS"
}

failed() {
	docker compose ps -a
	docker compose logs --tail 30
	echo "FAILED: $1"
	exit 1
}

# eventually repeats a command each second until it succeeds, for up to a minute. Services restart meanwhile.
eventually() { # DESCRIPTION COMMAND...
	local description=$1
	shift
	for _ in $(seq 60); do
		if "$@"; then
			echo "ok: $description"
			return
		fi
		sleep 1
	done
	failed "not within a minute: $description"
}

expect() { # DESCRIPTION WANT GOT
	[ "$2" = "$3" ] || failed "$1: want $2, got $3"
	echo "ok: $1: $3"
}

curl() {
	command curl -sS --max-time 20 --resolve "shop.internal:$HTTPS_PORT:127.0.0.1" "$@"
}

status() { # URL
	curl -o /dev/null -w '%{http_code}' "$@"
}

is_ready() {
	[ "$(status $plain/readyz)" = 200 ]
}

# Caddy signs the certificates after its start.
has_certificates() {
	docker compose exec -T proxy cat /data/caddy/pki/authorities/local/root.crt >"$CURL_CA_BUNDLE" &&
		[ "$(status $tls/healthz)" = 200 ] && [ "$(status "$named/healthz")" = 200 ]
}

field() { # NAME: of the JSON on standard input, which has it once
	sed -n 's/.*"'"$1"'":"\([^"]*\).*/\1/p'
}

login() { # BASE PHONE
	local answer code
	answer=$(curl -i -d "{\"phone\":\"$2\"}" "$1/api/v1/auth/code" | tr -d '\r')
	code=$(sed -n 's/^x-demo-code: //Ip' <<<"$answer")
	curl -d "{\"phone\":\"$2\",\"code\":\"$code\",\"login_id\":\"$(field login_id <<<"$answer")\"}" "$1/api/v1/auth/login" | field access_token
}

# buy repeats a purchase that a busy machine answers 503. The end has their number.
repeated=0
buy() { # BASE PHONE STATUS
	local token got
	token=$(login "$1" "$2")
	for _ in $(seq 10); do
		got=$(status -X POST -H "Authorization: Bearer $token" "$1/api/v1/vouchers/$sale/orders")
		[ "$got" = 503 ] || break
		repeated=$((repeated + 1))
		sleep 1
	done
	expect "an order of $2 through $1" "$3" "$got"
}

redis() { # SERVICE ARGUMENTS: of redis-cli
	docker compose exec -T "$1" redis-cli "${@:2}"
}

role() { # SERVICE
	redis "$1" role 2>/dev/null | sed -n 1p
}

has_role() { # SERVICE ROLE
	[ "$(role "$1")" = "$2" ]
}

master() {
	redis sentinel-1 -p 26379 sentinel get-master-addr-by-name seckill | sed -n 1p
}

master_is() { # SERVICE
	[ "$(master)" = "$1" ]
}

in_sync() { # SERVICE
	redis "$1" info replication | grep ^master_link_status:up >/dev/null
}

# fail_over_to makes a server the master, unless it has become that by the crash. Sentinels refuse a failover while one is
# running, and while they do not know the replica well enough.
fail_over_to() { # SERVICE
	master_is "$1" || { redis sentinel-1 -p 26379 sentinel failover seckill; return 1; }
}

sentinels_agree() {
	redis sentinel-1 -p 26379 sentinel ckquorum seckill | grep '^OK 3 ' >/dev/null
}

scraped() {
	curl "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/query?query=up" | grep 'app:9090[^]]*"1"' >/dev/null
}

anonymous() {
	docker volume ls -q --filter label=com.docker.volume.anonymous | sort
}

remove() {
	docker compose --profile '*' down -v --remove-orphans --rmi local --timeout 5
}

# What an interrupted run left. No command of compose works without an .env.
sh deploy/env.sh demo >.env
remove >/dev/null 2>&1
rm .env
trap 'remove >/dev/null 2>&1' EXIT
before=$(anonymous)

step "a fresh start"
make up
sale=$(curl -H "Authorization: Bearer $(login $plain 13800000000)" $plain/api/v1/admin/vouchers -d '{"shop_id":"1","title":"t","pay_value":1,
	"actual_value":2,"stock":9,"force":true,"begin_at":"2020-01-01T00:00:00Z","end_at":"2099-01-01T00:00:00Z"}' | field id)
buy $plain 13800000001 201
# Of a release the program has its own version.
[ -e ../release.yml ] || expect "the version" "$VERSION" "$(curl $plain/healthz | field version)"
expect "metrics on the public port" 404 "$(status $plain/metrics)"
report=$(docker compose exec -T app seckill doctor || true)
grep -E '^(warn|fail)' <<<"$report" || true
expect "warnings of the settings and sales" "config.demo config.sandbox" \
	"$(sed -nE 's/^(warn|fail) +((config|sales)[.]\S+).*/\2/p' <<<"$report" | sort -u | xargs)"
redis redis replicaof nobody 1
expect "/readyz with a Redis that is a replica" 503 "$(status $plain/readyz)"
redis redis replicaof no one
eventually "ready with a Redis that is a master" is_ready

step "the same data, with TLS, Sentinels and Prometheus"
make down
cat >>.env <<END
COMPOSE_PROFILES=tls,sentinel
SECKILL_REDIS_ADDRS=sentinel-1:26379,sentinel-2:26379,sentinel-3:26379
SECKILL_REDIS_SENTINEL=seckill
END
make up
docker compose --profile observability up -d --wait "${observability[@]}"
buy $plain 13800000001 409
export CURL_CA_BUNDLE=$PWD/../root.crt
eventually "the proxy has certificates" has_certificates
buy $tls 13800000002 201
expect "HSTS on localhost" "" "$(curl -I $tls/healthz | grep -i ^strict-transport || true)"
expect "HSTS on another name" 1 "$(curl -I "$named/healthz" | grep -ic ^strict-transport)"
expect "HTTP/3, which is not published" "" "$(curl -I $tls/healthz | grep -i ^alt-svc || true)"
eventually "Prometheus reads the metrics of the app" scraped
expect "alert rules" SeckillInstanceDown "$(curl "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/rules" | grep -o SeckillInstanceDown | sort -u)"

step "a failover"
eventually "the replica has the data" in_sync redis-replica
eventually "three Sentinels would agree" sentinels_agree
expect "the master" redis "$(master)"
docker compose stop redis
eventually "the Sentinels promote the replica" master_is redis-replica
eventually "ready with the new master" is_ready
buy $plain 13800000003 201
docker compose start redis
eventually "the old master is a replica" has_role redis slave
eventually "with the data" in_sync redis

step "today's master crashes"
redis redis-replica shutdown nosave now force || true
eventually "it answers again" redis redis-replica ping
expect "the role of the one that the Sentinels name" master "$(role "$(master)")"
eventually "ready" is_ready
buy $plain 13800000004 201

step "everything stops and starts, with a new password of Redis"
present=$(master)
make down
sed -i "s/^SECKILL_REDIS_PASSWORD=.*/SECKILL_REDIS_PASSWORD=changed-$RANDOM$RANDOM/" .env
make up
expect "the master, as before" "$present" "$(master)"
expect "its role" master "$(role "$present")"
buy $plain 13800000004 409
buy $plain 13800000005 201

step "the way back"
eventually "three Sentinels would agree" sentinels_agree
eventually "redis is the master" fail_over_to redis
eventually "it has the role" has_role redis master
eventually "the other one is the replica" has_role redis-replica slave
expect "what it keeps for a restart" "" "$(docker compose exec -T redis grep ^replicaof /data/redis.conf || true)"

step "the end"
docker compose --profile observability stop
expect "containers that did not end by themselves" "" \
	"$(docker compose --profile observability ps -aq | xargs docker inspect -f '{{.Name}} {{.State.ExitCode}}' | grep -v ' 0$' || true)"
make down
expect "anonymous volumes" "$before" "$(anonymous)"
mv .env ../saved.env
expect "make up with the data of another .env" refused "$(make up >../refused 2>&1 || grep -q 'docker compose' ../refused && echo refused)"
cat ../refused
mv ../saved.env .env
remove
expect "volumes of the project" "" "$(docker volume ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME")"
trap - EXIT
printf '\nThe containers work (%d s). Purchases that were repeated after 503: %d.\n' "$SECONDS" "$repeated"
