#!/bin/sh
# Prints a .env with new secrets for a local stack: deploy/env.sh > .env (make up does so once).
# Keep the file as long as the volumes, because MySQL keeps the passwords of its first start.
set -eu

# secret prints 32 random bytes in hex, which needs no escaping, not even in a DSN.
secret() {
	od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'
}

cat <<END
SECKILL_JWT_SECRET=$(secret)
SECKILL_REDIS_PASSWORD=$(secret)
MYSQL_PASSWORD=$(secret)
MYSQL_ROOT_PASSWORD=$(secret)

# A demo for this machine only: any client can log in as any user, 13800000000 is an admin, and payments move no money.
# With a real database the server refuses such settings unless they are named. Before the port is reachable from other
# machines, delete both lines and follow docs/deployment.md.
SECKILL_DEMO=true
SECKILL_UNSAFE=demo,sandbox
END
