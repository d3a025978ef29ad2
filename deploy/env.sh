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

# For this machine only: any client can log in as any user, and 13800000000 is an admin. Before the port is reachable
# from other machines, set it to false and SECKILL_ADMIN_PHONES to your own number.
SECKILL_DEMO=true
END
