#!/bin/sh
# Prints a .env with new secrets: deploy/env.sh > .env. With the argument demo it also has the settings of a demo for this
# machine only, as for make up. Keep the file as long as the volumes: MySQL keeps the passwords of its first start.
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
END

if [ "${1-}" = demo ]; then
	cat <<END

# A demo for this machine only: any client can log in as any user, 13800000000 is an admin, and payments move no money.
# With a real database the server refuses such settings unless they are named. Before the port is reachable from other
# machines, delete both lines and follow docs/operations.md.
SECKILL_DEMO=true
SECKILL_UNSAFE=demo,sandbox
END
else
	cat <<END
SECKILL_EVENTS_SECRET=$(secret)

# Required as well: docs/operations.md, Settings.
# SECKILL_CODE_URL=https://your-sms-service.example/codes
# SECKILL_ADMIN_PHONES=your number
END
fi
