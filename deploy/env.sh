#!/bin/sh
# Writes the .env of a local stack, with secrets of its own: deploy/env.sh > .env (make up does so once).
# Keep the file as long as the volumes: MySQL remembers the passwords of its first start.
set -eu

# secret prints 32 random bytes in hex: letters and digits alone, which every consumer (a DSN above all) takes as they are.
secret() {
	od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'
}

cat <<END
SECKILL_JWT_SECRET=$(secret)
SECKILL_REDIS_PASSWORD=$(secret)
MYSQL_PASSWORD=$(secret)
MYSQL_ROOT_PASSWORD=$(secret)

# For this machine only: anybody may log in as anybody, 13800000000 is an admin. Set it to false, and
# SECKILL_ADMIN_PHONES to your own number, before others can reach the port.
SECKILL_DEMO=true
END
