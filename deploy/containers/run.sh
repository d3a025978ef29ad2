#!/usr/bin/env bash
# Tries the image and docker-compose.yml in containers: `make containers`. The scenes are in check.sh.
#
# The containers run in the Docker engine of this machine, as a project of its own. Where there is no engine or no registry,
# debian.sh makes an engine and stand-ins of the images from Debian's packages; this needs root on Debian. Where neither is
# possible, the reason is printed, and SECKILL_TEST_REQUIRE=1 makes it an error.
#
#   PROGRAM=FILE  the image gets this program, as that of a release does. Otherwise the Dockerfile builds it.
#   WORK=FOLDER   where debian.sh keeps its packages and images for the next run, 3 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."

# why_no_engine prints nothing if the engine of this machine can be used.
why_no_engine() {
	local image
	image=$(sed -n 's/^FROM \(alpine:[^ ]*\).*/\1/p' Dockerfile)
	if ! command -v docker >/dev/null; then
		echo "docker is not installed"
	elif ! docker version >/dev/null 2>&1; then
		echo "no Docker engine answers"
	elif ! docker compose version >/dev/null 2>&1 || ! docker buildx version >/dev/null 2>&1; then
		echo "docker lacks compose v2 or buildx"
	elif ! docker image inspect "$image" >/dev/null 2>&1 && ! docker pull -q "$image" >/dev/null 2>&1; then
		echo "the registry of the images cannot be reached"
	fi
}

# why_no_debian prints nothing if debian.sh can be used.
why_no_debian() {
	if ! grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
		echo "this is not Debian"
	elif [ "$(id -u)" != 0 ]; then
		echo "not root"
	elif ! unshare --net --mount --uts --pid --fork true 2>/dev/null; then
		echo "root may not create namespaces"
	fi
}

try=(deploy/containers/check.sh)
engine=$(why_no_engine)
if [ -n "$engine" ]; then
	debian=$(why_no_debian)
	if [ -n "$debian" ]; then
		echo "The containers are not checked: $engine, and no engine can be made of Debian's packages: $debian." >&2
		exit "${SECKILL_TEST_REQUIRE:-0}"
	fi
	echo "Engine and images are made of Debian's packages: $engine."
	try=(deploy/containers/debian.sh)
fi

# In a copy, so that .env and the data of `make up` are not touched.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/src"
git ls-files -coz --exclude-standard | tar --null -T - -c | tar -C "$copy/src" -x
if [ -n "${PROGRAM-}" ]; then
	platform=linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
	mkdir -p "$copy/image/$platform"
	cp Dockerfile "$copy/image/"
	cp "$PROGRAM" "$copy/image/$platform/seckill"
	echo 'services: {app: {build: {context: ../image, target: release}}}' >"$copy/release.yml"
fi
"${try[@]}" "$copy"
